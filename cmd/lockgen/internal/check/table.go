package check

import (
	"cmp"
	"fmt"
	"go/types"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
)

// The table has for each interface and each of its methods what that is to hold. It is built by walking declarations bottom-up: a method keeps
// the lock that was declared with it wherever its interface is embedded, unless an interface on the way says something else about it.
type table map[types.Type]map[string]*entry

// An entry is all that reaches one method of an interface.
type entry struct {
	effects []*effect  // that differ; a method that is to be wrapped has at most one
	names   [][]string // of the parameters, of each declaration that has others; first those that the interface's method has
	own     bool       // the interface declares the method itself
}

// An effect is what one place says about a method: its locks, or that it needs none.
type effect struct {
	owner      *decl // where it is said
	directives []*directive.Directive
	names      []string               // of the parameters that the directives speak of
	also       [][]string             // other names that the same parameters have there, of a directive above an interface
	over       []*directive.Directive // of the annotated interfaces that have inherited it, the last first: their options count more
	via        types.Type             // the first annotated interface on the way, whose builders make its keys; or nil
	wrong      []diag.Diagnostic      // instead of all that: mistakes that would be the directives
}

func (e *effect) locks() bool { return len(e.directives) > 0 && e.directives[0].Verb == directive.Lock }

// entries returns the methods of a type that is embedded or wrapped.
func (r *Run) entries(t types.Type) map[string]*entry {
	if all, ok := r.table[t]; ok {
		return all // none for one that embeds itself, which is a mistake
	}
	r.table[t] = nil
	var d *decl
	var all map[string]*entry
	switch t := t.(type) {
	case *types.Alias:
		if d = r.decl(t.Obj()); d == nil || !d.literal {
			all = inherit(r.entries(t.Rhs()), false)
		}
	case *types.Named:
		if d = r.decl(t.Obj()); d != nil && d.of != nil {
			// Type arguments come in only by the types of parameters; those of the other type's builders are not known.
			all = inherit(r.entries(d.of), d.inexact || t.TypeArgs().Len() > 0)
		}
	}
	if all == nil {
		iface, ok := t.Underlying().(*types.Interface)
		if !ok {
			return nil
		}
		all = r.declared(d, iface)
	}
	if d != nil {
		r.settle(d, t, all)
	}
	r.table[t] = all
	return all
}

// inherit copies the methods of an interface that is declared by the name of another one.
func inherit(from map[string]*entry, anew bool) map[string]*entry {
	all := map[string]*entry{}
	for name, e := range from {
		copied := &entry{names: e.names}
		for _, one := range e.effects {
			if anew {
				other := *one
				other.via = nil
				one = &other
			}
			copied.effects = append(copied.effects, one)
		}
		all[name] = copied
	}
	return all
}

// declared collects the methods that an interface declares and embeds. A declaration with a directive is what counts.
func (r *Run) declared(d *decl, iface *types.Interface) map[string]*entry {
	all := map[string]*entry{}
	for m := range iface.ExplicitMethods() {
		names := make([]string, m.Signature().Params().Len())
		for i := range names {
			names[i] = m.Signature().Params().At(i).Name()
		}
		e := &entry{names: [][]string{names}, own: true}
		if d != nil && d.methods[m.Name()] != nil {
			s := d.methods[m.Name()]
			e.effects = []*effect{{owner: d, directives: s.directives, names: names, wrong: s.wrong}}
		}
		all[m.Name()] = e
	}
	for t := range iface.EmbeddedTypes() {
		for name, inner := range r.entries(t) {
			e := all[name]
			if e == nil {
				e = &entry{}
				all[name] = e
			}
			said := e.own && len(e.effects) > 0 && e.effects[0].owner == d
			for _, names := range inner.names {
				if !slices.ContainsFunc(e.names, func(other []string) bool { return slices.Equal(names, other) }) {
					e.names = append(slices.Clip(e.names), names)
				}
			}
			for _, one := range inner.effects {
				if !said && !slices.ContainsFunc(e.effects, func(other *effect) bool { return other == one || other.text(nil) == one.text(nil) }) {
					e.effects = append(e.effects, one)
				}
			}
		}
	}
	return all
}

// settle applies what stands above an interface.
func (r *Run) settle(d *decl, t types.Type, all map[string]*entry) {
	r.consume(d)
	given := map[string]bool{}
	for _, o := range d.others {
		name := o.Method.Value
		e, from, to := all[name], o.Method.Pos, o.Method.End
		switch {
		case e == nil:
			var names []string
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			r.list.Add(from, to, "%s has no method %s%s", d.name, name, diag.Suggest(name, names))
			continue
		case e.own:
			r.list.Add(from, to, "%s is declared in %s: put the directive directly above it, without method", name, d.name)
			continue
		case !given[name]:
			given[name] = true
			e.effects = []*effect{{owner: d, names: e.names[0], also: e.names[1:]}}
		}
		e.effects[0].directives = append(e.effects[0].directives, o)
	}
	for _, e := range all {
		if d.directive != nil {
			for i, one := range e.effects {
				e.effects[i] = one.through(d, t)
			}
		}
		if len(d.wrong) > 0 {
			e.effects = append(e.effects, &effect{owner: d, wrong: d.wrong})
		}
	}
}

// through is the effect for types that embed an annotated interface.
func (e *effect) through(d *decl, t types.Type) *effect {
	out := *e
	if e.owner != d {
		out.over = append([]*directive.Directive{d.directive}, e.over...)
	}
	if e.via == nil {
		out.via = t
	}
	return &out
}

// consume notes that directives have a use: an annotated interface has the methods.
func (r *Run) consume(d *decl) {
	r.consumed[d.place] = true
	for _, s := range d.methods {
		r.consumed[s.place] = true
	}
}

// levels are the directives whose options count for the locks of an effect, the nearest first: what annotated interfaces say that have inherited
// it, what the locks say, then the interface and the package that declare them, then the package that wraps them.
func (r *Run) levels(e *effect, preset *directive.Directive) [][]*directive.Directive {
	var levels [][]*directive.Directive
	for _, d := range e.over {
		levels = append(levels, []*directive.Directive{d})
	}
	return append(levels, e.directives, []*directive.Directive{e.owner.directive}, []*directive.Directive{r.defaults(e.owner).defaults}, []*directive.Directive{preset})
}

// text is the same for two effects that are the same lock: the keys by the positions of parameters, and the options. With the levels that count
// where a method is wrapped, what is the default needn't be said.
func (e *effect) text(levels [][]*directive.Directive) string {
	switch {
	case len(e.wrong) > 0:
		return fmt.Sprintf("wrong %p", &e.wrong[0])
	case !e.locks():
		return "nolock"
	}
	var locks []string
	for _, d := range e.directives {
		locks = append(locks, e.lockText(d))
	}
	slices.Sort(locks)
	whole := levels != nil
	if !whole {
		for _, d := range e.over {
			locks = append(locks, fmt.Sprintf("over %p", d))
		}
		levels = [][]*directive.Directive{e.directives, {e.owner.directive}}
		locks = append(locks, "in "+e.owner.pkg.Path())
	}
	for _, g := range directive.Effective(levels...) {
		if !slices.Contains(ofEach, g.Name) && !(whole && slices.Contains(presets, g.Text())) {
			locks = append(locks, g.Name+"="+normal(g.Value))
		}
	}
	for _, d := range e.directives {
		if d.Ctx != nil {
			locks = append(locks, fmt.Sprintf("ctx=%d", slices.Index(e.names, d.Ctx.Value)))
		}
	}
	return strings.Join(locks, " ")
}

// ofEach are the options that each of several locks has for itself, and presets those values of the others that are the default.
var (
	ofEach  = []string{"kind", "permits", "fence", "max", "empty"}
	presets = []string{"wait=ctx", "busy=error", "lost=cancel", "release=auto"}
)

// normal writes durations in one way.
func normal(value string) string {
	if d, err := time.ParseDuration(value); err == nil {
		return d.String()
	}
	return value
}

// lockText is one of the locks of an effect.
func (e *effect) lockText(d *directive.Directive) string {
	var b strings.Builder
	if p := e.owner.directive; p != nil && p.Prefix != nil {
		b.WriteString(p.Prefix.Value + ":")
	}
	b.WriteString(e.keyText(d))
	for _, name := range ofEach {
		a := d.Arg(name)
		switch {
		case name == "kind":
			b.WriteString("|" + kindOf(d))
		case a != nil:
			b.WriteString("|" + name + "=" + a.Value)
		}
	}
	var after []string
	if d.After != nil {
		after = strings.Fields(d.After.Value)
		slices.Sort(after)
	}
	return b.String() + "|" + cmp.Or(strings.Join(after, ","), "-")
}

// keyText is the key of a lock with parameters by their positions.
func (e *effect) keyText(d *directive.Directive) string {
	if name, ok := d.Function(); ok {
		args := e.names
		if fn, ok := e.owner.pkg.Scope().Lookup(name).(*types.Func); ok {
			args = nil
			for p := range fn.Signature().Params().Variables() {
				args = append(args, fmt.Sprint(slices.Index(e.names, p.Name())))
			}
		}
		return "@" + e.owner.pkg.Path() + "." + name + "(" + strings.Join(args, ",") + ")"
	}
	t, err := key.Parse(d.Key.Value)
	if err != nil {
		return d.Key.Value
	}
	return t.Rename(func(param string) string { return fmt.Sprint(slices.Index(e.names, param)) })
}
