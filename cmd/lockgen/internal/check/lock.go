package check

import (
	"errors"
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
	levels := c.run.levels(m.effect, c.preset)
	timing := timingOf(levels)
	l := &model.Lock{
		Builder:  c.builder(iface, m),
		SpecName: c.pkg.Name + "." + iface.Spec.Name.Name + "." + m.fn.Name(),
		SpecVar:  c.pickSpec(iface, m.fn.Name()),
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
	c.prefix(m.effect.owner.directive)
	for _, d := range m.directives {
		if k := c.key(m, d, context, l.Builder, service); k != nil {
			k.Fence = d.Fence != nil
			if service {
				c.kind(k, d)
			}
			c.addKey(l, k, d)
		}
	}
	if service {
		c.bounded(m, l, own.Wait)
		c.ending(m, l, levels)
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
func (c *checker) ending(m *method, l *model.Lock, levels [][]*directive.Directive) {
	l.Report = directive.Nearest(levels, "lost").Is("report")
	release, least, linger := m.arg("release"), m.arg("min"), m.arg("linger")
	for _, d := range m.directives {
		if kind := kindOf(d); kinds[kind] != model.Mutex {
			for _, a := range []*directive.Arg{release, least, linger} {
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
	for _, d := range m.directives {
		l.Linger = max(l.Linger, d.LingersFor)
	}
	if linger != nil && l.Lease > 0 {
		c.list.Add(linger.Pos, linger.End, "linger has no effect, since the key of a lease of fixed length does not linger")
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
		NoLock:    m.has(directive.NoLock),
	}
	if out.Lock != nil {
		for i, k := range out.Lock.Keys {
			u.Keys = append(u.Keys, UsedKey{k, m.directives[i], m.effect.owner.pkg.Path()})
		}
		u.Options = directive.Effective(c.run.levels(m.effect, c.preset)...)
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

// timingOf is what the first levels that say something about it say about the times of a lock.
func timingOf(levels [][]*directive.Directive) directive.Timing {
	var t directive.Timing
	for _, level := range levels {
		for _, d := range level {
			if d != nil {
				t = t.Over(d.Timing)
			}
		}
	}
	return t
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
	for _, name := range []string{"wait", "watchdog", "lease", "busy", "lost", "release", "min", "linger", "scope", "ctx"} {
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
	case l.Wait == model.UntilDone:
		c.list.Add(d.Slash, d.End, "%s has no context.Context to wait for: wait=ctx needs one", m.fn.Name())
	}
}

// key reads the template of a directive. The output need not be able to name the types of a key that it does not build
// itself.
func (c *checker) key(m *method, d *directive.Directive, context int, builder *model.Builder, service bool) *model.Key {
	arg := d.Key
	note := func(err error) {
		if e, ok := errors.AsType[*key.Error](err); ok {
			if e.Unknown && m.field != nil && c.compiler(m.field.Type) {
				return
			}
			from, to := arg.At(e.Off, e.End)
			c.list.Add(from, to, "%s", e.Message)
		}
	}
	var k *model.Key
	if name, ok := d.Function(); ok {
		if k = c.function(m, d, name, builder); k == nil {
			return nil
		}
	} else {
		t, err := key.Parse(arg.Value)
		if err != nil {
			note(err)
			return nil
		}
		c.literals(m, arg, t)
		scope := &key.Scope{Package: c.pkg.Types, Params: m.params(), Skip: context}
		if builder != nil {
			scope.Package = builder.Interface.Pkg()
		}
		if k, err = scope.Resolve(t); err != nil {
			note(err)
			return nil
		}
		if !c.oneMeaning(m, d, t) {
			return nil
		}
		k.Text = t.Rename(m.named)
	}
	if !c.limits(d, k, builder == nil, service) {
		return nil
	}
	if p := m.effect.owner.directive; p != nil && p.Prefix != nil {
		prefix := p.Prefix.Value + ":"
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

// limits says in the values of a key what max and empty say, if they can: typed locks need an element. A key that is built here needs names of the language.
func (c *checker) limits(d *directive.Directive, k *model.Key, here, service bool) bool {
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
			empty = empty || service && !v.Array
			v.Empty = service && d.Empty != nil
			v.Max = mostKeys
			if d.Max != nil {
				v.Max = d.MaxKeys
			}
			if a, ok := key.Core(v.List).(*types.Array); ok && a.Len() > int64(v.Max) {
				c.list.Add(from, to, "%s has %d elements, and at most %d are locked together; if that is meant: max=%d", c.typeName(v.List), a.Len(), v.Max, a.Len())
				return false
			}
		}
		if written.CanBeEmpty() && !tagged { // an empty hash tag is none
			empty = true
			written.Empty = d.Empty != nil
		}
		if here && (v.Each != nil || written.CanBeEmpty() && (written.Leaf == model.Hex || written.Leaf == model.Text)) {
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
	if d == nil || d.Prefix == nil {
		return
	}
	if e, ok := errors.AsType[*key.Error](key.CheckPrefix(d.Prefix.Value)); ok {
		from, to := d.Prefix.At(e.Off, e.End)
		c.list.Add(from, to, "%s", e.Message)
	}
}

// contextOf finds the parameter that is the context of the call, or -1.
func (c *checker) contextOf(m *method) (int, bool) {
	params := m.params()
	d := m.directives[0]
	wanted := m.arg("ctx")
	var found []int
	for i := range params.Len() {
		p := params.At(i)
		switch {
		case wanted != nil && p.Name() == wanted.Value && !isBlank(p.Name()):
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
