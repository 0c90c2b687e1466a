package check

import (
	"errors"
	"go/token"
	"go/types"
	"strings"
	"time"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/templates/model"
)

// lock builds the lock of a method from all its directives. The place of what is wrong is the directive.
func (c *checker) lock(iface *directive.Interface, m *method, context int) *model.Lock {
	before := c.list.Len()
	first := m.directives[0]
	timing := c.together(m)
	own := timing
	timing = timing.Over(iface.Directive.Timing).Over(c.timing)
	l := &model.Lock{
		SpecName: c.pkg.Name + "." + iface.Spec.Name.Name + "." + m.fn.Name(),
		SpecVar:  c.names.Pick(specVar(iface, m.fn.Name())),
		Wait:     model.UntilDone,
		Context:  context,
	}
	if timing.Wait != nil {
		l.Wait = *timing.Wait
	}
	if timing.Watchdog != nil {
		l.Watchdog = *timing.Watchdog
	}
	if timing.Lease != nil {
		l.Lease = *timing.Lease
	}
	for _, d := range m.directives {
		l.Skip = l.Skip || d.Skip()
		if k := c.key(iface, m, d, context); k != nil {
			c.addKey(l, k, d)
		}
	}
	if iface.Directive.Verb == directive.Service {
		c.bounded(m, l, own.Wait)
	}
	if c.list.Len() > before || first == nil {
		return nil
	}
	return l
}

// use notes what a method locks.
func (c *checker) use(iface *directive.Interface, m *method, out *model.Method) {
	pos, _ := m.pos(iface)
	u := Use{
		Name:      c.pkg.Name + "." + iface.Spec.Name.Name + "." + m.fn.Name(),
		Interface: c.pkg.Info.Defs[iface.Spec.Name].(*types.TypeName),
		Verb:      iface.Directive.Verb,
		Method:    out,
		Pos:       pos,
	}
	if out.Lock != nil {
		for i, k := range out.Lock.Keys {
			u.Keys = append(u.Keys, UsedKey{k, m.directives[i]})
		}
		u.Options = directive.Effective(m.directives, iface.Directive, c.preset)
	}
	c.uses = append(c.uses, u)
}

// addKey adds a key that the lock doesn't have yet.
func (c *checker) addKey(l *model.Lock, k *model.Key, d *directive.Directive) {
	for _, other := range l.Keys {
		if other.Text == k.Text {
			from, to := d.Key.ValuePos()
			c.list.Add(from, to, "the method holds %s already", k.Text)
		}
	}
	l.Keys = append(l.Keys, k)
}

// together merges the options of several locks on one method, which are taken by one call.
func (c *checker) together(m *method) directive.Timing {
	merged := m.directives[0].Timing
	for i, d := range m.directives[1:] {
		differ := func(name string, a, b *time.Duration) {
			if a != nil && b != nil && *a != *b {
				c.list.Add(d.Slash, d.End, "the locks of one method are taken together: %s differs from that at %s", name, c.list.Place(m.directives[i].Slash))
			}
		}
		differ("wait", merged.Wait, d.Timing.Wait)
		differ("watchdog", merged.Watchdog, d.Timing.Watchdog)
		differ("lease", merged.Lease, d.Timing.Lease)
		if merged.Lease != nil && d.Timing.Watchdog != nil || merged.Watchdog != nil && d.Timing.Lease != nil {
			c.list.Add(d.Slash, d.End, "the locks of one method are taken together: they can't have a lease and a watchdog")
		}
		if d.Timing.Wait == nil {
			d.Timing.Wait = merged.Wait
		}
		if d.Timing.Watchdog == nil {
			d.Timing.Watchdog = merged.Watchdog
		}
		if d.Timing.Lease == nil {
			d.Timing.Lease = merged.Lease
		}
		merged = d.Timing
	}
	var busy *directive.Arg
	for _, d := range m.directives {
		switch {
		case busy == nil:
			busy = d.Busy
		case d.Busy != nil && d.Busy.Value != busy.Value:
			c.list.Add(d.Busy.Pos, d.Busy.End, "the locks of one method are taken together: busy differs from that at %s", c.list.Place(busy.Pos))
		}
	}
	return merged
}

// bounded checks that a wait which nobody can end has an end.
func (c *checker) bounded(m *method, l *model.Lock, own *time.Duration) {
	d := m.directives[0]
	if l.Skip && l.Wait == model.UntilDone {
		busy := d.Busy
		for _, d := range m.directives {
			if busy == nil {
				busy = d.Busy
			}
		}
		c.list.Add(busy.Pos, busy.End, "busy=skip has no effect, since %s waits until the lock is free; add wait=0, or a duration", m.fn.Name())
		return
	}
	if l.Context >= 0 {
		return
	}
	switch {
	case own == nil:
		c.list.Add(d.Slash, d.End, "%s has no context.Context that could end the wait: add one, or wait= with a duration to this directive", m.fn.Name())
	case *own == directive.UntilDone:
		c.list.Add(d.Slash, d.End, "%s has no context.Context to wait for: wait=ctx needs one", m.fn.Name())
	}
}

// key reads the template of a directive.
func (c *checker) key(iface *directive.Interface, m *method, d *directive.Directive, context int) *model.Key {
	arg := d.Key
	note := func(err error) {
		if e, ok := errors.AsType[*key.Error](err); ok {
			from, to := arg.At(e.Off, e.End)
			c.list.Add(from, to, "%s", e.Message)
		}
	}
	if strings.HasPrefix(arg.Value, "@") && token.IsIdentifier(arg.Value[1:]) {
		from, to := arg.ValuePos()
		c.list.Add(from, to, "key=%s: a function that makes the key is not supported yet; write a template such as order:{id}", arg.Value)
		return nil
	}
	t, err := key.Parse(arg.Value)
	if err != nil {
		note(err)
		return nil
	}
	scope := &key.Scope{Package: c.pkg.Types, Params: m.fn.Signature().Params(), Skip: context}
	k, err := scope.Resolve(t)
	if err != nil {
		note(err)
		return nil
	}
	if !c.limits(d, k) {
		return nil
	}
	if p := iface.Directive.Prefix; p != nil {
		prefix := p.Value + ":"
		k.Text = prefix + k.Text
		if k.Parts[0].Value == nil {
			k.Parts[0].Literal = prefix + k.Parts[0].Literal
		} else {
			k.Parts = append([]model.Part{{Literal: prefix}}, k.Parts...)
		}
	}
	length := 0
	for _, part := range k.Parts {
		length += len(part.Literal)
	}
	if length > longestKey {
		from, to := arg.ValuePos()
		c.list.Add(from, to, "the key is at least %d bytes long; at most %d are accepted", length, longestKey)
		return nil
	}
	return k
}

// mostKeys is how many elements of a list are locked together without max.
const mostKeys = 64

// limits says in the values of a key what max and empty say, if they can say something.
func (c *checker) limits(d *directive.Directive, k *model.Key) bool {
	from, to := d.Key.ValuePos()
	list, empty, tagged := false, false, false
	for _, part := range k.Parts {
		v := part.Value
		if v == nil {
			tagged = strings.HasSuffix(part.Literal, "{")
			continue
		}
		written := v
		if v.Each != nil {
			written = v.Each
			list = true
			empty = empty || !v.Array
			v.Empty = d.Empty != nil
			v.Max = mostKeys
			if d.Max != nil {
				v.Max = d.MaxKeys
			}
			if a, ok := v.List.Underlying().(*types.Array); ok && a.Len() > int64(v.Max) {
				c.list.Add(from, to, "%s has %d elements, and at most %d are locked together; if that is meant: max=%d", c.typeName(v.List), a.Len(), v.Max, a.Len())
				return false
			}
		}
		if written.CanBeEmpty() && !tagged { // an empty hash tag is none
			empty = true
			written.Empty = d.Empty != nil
		}
		if v.Each != nil || written.CanBeEmpty() && (written.Leaf == model.Hex || written.Leaf == model.Text) {
			c.predeclared("len", from, to)
		}
	}
	if a := d.Max; a != nil && !list {
		c.list.Add(a.Pos, a.End, "max has no effect, since the key has no list such as {ids...}")
		return false
	}
	if a := d.Empty; a != nil && !empty {
		c.list.Add(a.Pos, a.End, "empty has no effect, since nothing in the key can be empty")
		return false
	}
	return true
}

// longestKey is what the runtime accepts, in bytes.
const longestKey = 1024

// prefix checks the prefix of an interface's keys.
func (c *checker) prefix(d *directive.Directive) {
	if d.Prefix == nil {
		return
	}
	if e, ok := errors.AsType[*key.Error](key.CheckPrefix(d.Prefix.Value)); ok {
		from, to := d.Prefix.At(e.Off, e.End)
		c.list.Add(from, to, "%s", e.Message)
	}
}

// contextOf finds the parameter that is the context of the call, or -1.
func (c *checker) contextOf(m *method) (int, bool) {
	params := m.fn.Signature().Params()
	d := m.directives[0]
	var wanted *directive.Arg
	for _, d := range m.directives {
		if d.Ctx == nil {
			continue
		}
		if wanted != nil && wanted.Value != d.Ctx.Value {
			c.list.Add(d.Ctx.Pos, d.Ctx.End, "the locks of one method are taken together: ctx differs")
			return -1, false
		}
		wanted = d.Ctx
	}
	var found []int
	for i := range params.Len() {
		p := params.At(i)
		switch {
		case wanted != nil && p.Name() == wanted.Value:
			if !isContext(p.Type()) {
				from, to := wanted.ValuePos()
				c.list.Add(from, to, "ctx=%s: the parameter is of type %s, not context.Context", wanted.Value, c.typeName(p.Type()))
				return -1, false
			}
			return i, true
		case isContext(p.Type()):
			found = append(found, i)
		}
	}
	switch {
	case wanted != nil:
		from, to := wanted.ValuePos()
		c.list.Add(from, to, "ctx=%s: %s has no such parameter", wanted.Value, m.fn.Name())
		return -1, false
	case len(found) > 1:
		c.list.Add(d.Slash, d.End, "%s has several contexts; say which one ends the wait and carries the lock: ctx=name", m.fn.Name())
		return -1, false
	case len(found) == 1:
		return found[0], true
	}
	return -1, c.noContext(m)
}

// noContext refuses a parameter that is a context and something else besides: the lock's context couldn't be put in its place.
func (c *checker) noContext(m *method) bool {
	for p := range m.fn.Signature().Params().Variables() {
		if implementsContext(p.Type()) {
			d := m.directives[0]
			c.list.Add(d.Slash, d.End,
				"%s of %s is of type %s, which implements context.Context but can't be replaced by the lock's context; take a context.Context beside it",
				p.Name(), m.fn.Name(), c.typeName(p.Type()))
			return false
		}
	}
	return true
}

func (c *checker) typeName(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		switch {
		case p == c.pkg.Types:
			return ""
		case p.Path() == runtimePath:
			return "lockrt"
		}
		return p.Name()
	})
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isNamed(t types.Type, path, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path && n.Obj().Name() == name
}

// implementsContext goes by the methods' names: they are unusual enough together.
func implementsContext(t types.Type) bool {
	for _, name := range []string{"Deadline", "Done", "Err", "Value"} {
		obj, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
		if _, ok := obj.(*types.Func); !ok {
			return false
		}
	}
	return true
}
