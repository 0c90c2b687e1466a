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
	own := c.together(m)
	timing := own.Over(iface.Directive.Timing).Over(c.timing)
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
	busy := m.arg("busy")
	l.Skip, l.Fallback = busy.Is("skip"), busy.Is("fallback")
	service := iface.Directive.Verb == directive.Service
	for _, d := range m.directives {
		if k := c.key(iface, m, d, context); k != nil {
			k.Fence = d.Fence != nil
			if service {
				c.kind(k, d)
			}
			c.addKey(l, k, d)
		}
	}
	if service {
		c.bounded(m, l, own.Wait)
		c.ending(iface, m, l)
	}
	if m.arg("fence") != nil || l.Keep || l.Report || m.arg("empty") != nil {
		c.predeclared("true", m.directives[0].Slash, m.directives[0].End)
	}
	if c.list.Len() > before {
		return nil
	}
	return l
}

// kinds are those of the locks of a service.
var kinds = map[string]model.Kind{"mutex": model.Mutex, "read": model.Read, "write": model.Write, "fair": model.Fair, "permit": model.Permit, "red": model.Red}

// kind settles which lock a key of a service is of.
func (c *checker) kind(k *model.Key, d *directive.Directive) {
	k.Kind, k.Permits = kinds[kindOf(d)], d.Permits
	permits := d.Arg("permits")
	switch {
	case k.Kind == model.Permit && permits == nil:
		c.list.Add(d.Kind.Pos, d.Kind.End, "kind=permit needs permits=, and how many may have one at once")
	case k.Kind != model.Permit && permits != nil:
		c.list.Add(permits.Pos, permits.End, "permits is for kind=permit")
	}
	if a := d.Arg("fence"); a != nil {
		c.fenced(k.Kind, a)
	}
}

// fenced checks that there can be a fencing token.
func (c *checker) fenced(kind model.Kind, a *directive.Arg) bool {
	switch kind {
	case model.Read:
		c.list.Add(a.Pos, a.End, "readers have no fencing token: there is nothing that they could overwrite")
	case model.Permit:
		c.list.Add(a.Pos, a.End, "permits have no fencing token: several are held at once")
	default:
		return true
	}
	return false
}

// arg is an option of the locks of a method, which are taken together: what one of them says counts for all.
func (m *method) arg(name string) *directive.Arg {
	for _, d := range m.directives {
		if a := d.Arg(name); a != nil {
			return a
		}
	}
	return nil
}

// ending settles what becomes of the lock when it is lost and when the call is over.
func (c *checker) ending(iface *directive.Interface, m *method, l *model.Lock) {
	lost := m.arg("lost")
	for _, d := range []*directive.Directive{iface.Directive, c.preset} {
		if lost == nil && d != nil {
			lost = d.Lost
		}
	}
	l.Report = lost.Is("report")
	release, least := m.arg("release"), m.arg("min")
	for _, d := range m.directives {
		if kind := kindOf(d); kinds[kind] != model.Mutex {
			for _, a := range []*directive.Arg{release, least} {
				switch {
				case a == nil || a.Is("auto"):
				case d.Arg(a.Name) == a:
					c.list.Add(a.Pos, a.End, "%s is for mutexes, and this is kind=%s", a.Name, kind)
				default:
					c.list.Add(a.Pos, a.End, "%s is for mutexes, the locks of one method are taken together, and that at %s is kind=%s", a.Name, c.list.Place(d.Slash), kind)
				}
			}
			return
		}
	}
	l.Keep = release.Is("keep")
	if l.Keep && l.Lease == 0 {
		c.list.Add(release.Pos, release.End, "release=keep needs a lease: with a watchdog the lock would be renewed for ever; add lease= and how long it is to stay locked")
	}
	if least == nil {
		return
	}
	for _, d := range m.directives {
		l.Min = max(l.Min, d.AtLeast)
	}
	switch {
	case l.Keep:
		c.list.Add(least.Pos, least.End, "min has no effect, since release=keep leaves the lock locked until its lease ends")
	case l.Lease > 0 && l.Min > l.Lease:
		c.list.Add(least.Pos, least.End, "min is longer than the lease of %v; make the lease as long", l.Lease)
	}
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
	for _, d := range m.directives[1:] {
		if merged.Lease != nil && d.Timing.Watchdog != nil || merged.Watchdog != nil && d.Timing.Lease != nil {
			c.list.Add(d.Slash, d.End, "the locks of one method are taken together: they can't have a lease and a watchdog")
		}
		if merged.Wait == nil {
			merged.Wait = d.Timing.Wait
		}
		if merged.Watchdog == nil {
			merged.Watchdog = d.Timing.Watchdog
		}
		if merged.Lease == nil {
			merged.Lease = d.Timing.Lease
		}
	}
	for _, name := range []string{"wait", "watchdog", "lease", "busy", "lost", "release", "min", "scope", "ctx"} {
		first := m.arg(name)
		for _, d := range m.directives {
			if a := d.Arg(name); a != nil && !sameValue(a.Value, first.Value) {
				c.list.Add(a.Pos, a.End, "the locks of one method are taken together: %s differs from that at %s", name, c.list.Place(first.Pos))
				break
			}
		}
	}
	return merged
}

// kindOf is the kind of a lock, said or not.
func kindOf(d *directive.Directive) string {
	if d.Kind == nil {
		return "mutex"
	}
	return d.Kind.Value
}

// sameValue compares values, durations by their length.
func sameValue(a, b string) bool {
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return a == b || errX == nil && errY == nil && x == y
}

// bounded checks that a wait which nobody can end has an end.
func (c *checker) bounded(m *method, l *model.Lock, own *time.Duration) {
	d := m.directives[0]
	if busy := m.arg("busy"); (l.Skip || l.Fallback) && l.Wait == model.UntilDone {
		c.list.Add(busy.Pos, busy.End, "busy=%s has no effect, since %s waits until the lock is free; add wait=0, or a duration", busy.Value, m.fn.Name())
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
	var k *model.Key
	if name, ok := d.Function(); ok {
		if m.abroad {
			from, to := arg.ValuePos()
			c.list.Add(from, to, "key=@%s: %s of %s would need this function of another package: say above %s what it is to hold, with method=%s",
				name, m.fn.Name(), iface.Spec.Name.Name, iface.Spec.Name.Name, m.fn.Name())
			return nil
		}
		if k = c.function(m, d, name); k == nil {
			return nil
		}
	} else {
		t, err := key.Parse(arg.Value)
		if err != nil {
			note(err)
			return nil
		}
		c.literals(m, arg, t)
		scope := &key.Scope{Package: c.pkg.Types, Params: m.fn.Signature().Params(), Skip: context}
		if k, err = scope.Resolve(t); err != nil {
			note(err)
			return nil
		}
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

// literals notes what stands in a key as text and is most likely meant as something else: a function, or a parameter without its braces. Either
// would be one lock for everything.
func (c *checker) literals(m *method, arg *directive.Arg, t *key.Template) {
	for i, part := range t.Parts {
		off := part.Off
		for segment := range strings.FieldsFuncSeq(part.Literal, func(r rune) bool { return r == ':' || r == '/' }) {
			off += strings.Index(t.Text[off:], segment)
			from, to := arg.At(off, off+len(segment))
			off += len(segment)
			fn, ok := strings.CutPrefix(segment, "@")
			_, declared := c.pkg.Declared[fn]
			switch whole := off < part.End || i+1 == len(t.Parts); {
			case !ok || !whole || !token.IsIdentifier(fn):
			case declared:
				c.list.Add(from, to, "@%s is text here; a function makes a whole key: key=@%s, and %s returns a lockrt.Key with all of it", fn, fn, fn)
			default:
				c.list.Warn(from, to, "@%s is text here: @ names a function only where a key begins with it", fn)
			}
		}
	}
	if len(t.Parts) > 1 || t.Parts[0].Path != nil {
		return
	}
	off := strings.LastIndexAny(t.Text, ":/") + 1
	name, _, _ := strings.Cut(t.Text[off:], ".")
	for p := range m.fn.Signature().Params().Variables() {
		if off > 0 && p.Name() == name {
			from, to := arg.At(off, len(t.Text))
			c.list.Warn(from, to, "%s is text here, so all calls have one lock; for the value of the parameter write {%s}", t.Text[off:], t.Text[off:])
		}
	}
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
	wanted := m.arg("ctx")
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
