package check

import (
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/templates/model"
)

// literals notes text in a key that most likely means something else: a function, or a parameter without its braces. Either gives one lock to things
// that need one each.
func (c *checker) literals(m *method, arg *directive.Arg, t *key.Template) {
	for i, part := range t.Parts {
		off := part.Off
		for segment := range strings.FieldsFuncSeq(part.Literal, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			off += strings.Index(t.Text[off:], segment)
			from, to := arg.At(off, off+len(segment))
			begin := off
			off += len(segment)
			// A segment that a placeholder continues is no name of its own.
			alone := (begin > part.Off || i == 0) && (off < part.End || i+1 == len(t.Parts))
			if alone && c.unbraced(m, t, begin, segment) {
				same := "all calls have one lock"
				if len(t.Parts) > 1 {
					same = "calls that differ in it have one lock"
				}
				c.list.Warn(from, to, "%s is text here, so %s; for the value of the parameter write {%s}", segment, same, segment)
			}
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
}

// separators stand between the segments of a key.
const separators = ":/"

// unbraced reports whether a segment of a key reads like the way to a parameter that no placeholder names. The first
// segment of several is the kind of thing that the key is of, as in order:{o.ID}, whatever a parameter is called.
func (c *checker) unbraced(m *method, t *key.Template, off int, segment string) bool {
	if off == 0 && len(segment) < len(t.Text) {
		return false
	}
	name, _, _ := strings.Cut(segment, ".")
	if slices.ContainsFunc(t.Parts, func(p key.Part) bool { return p.Path != nil && p.Path[0].Text == name }) {
		return false
	}
	for p := range m.params().Variables() {
		if p.Name() == name && name != "_" {
			return !isContext(p.Type())
		}
	}
	return false
}

// unnamed warns of the parameters of a typed lock that its key leaves out: two locks that differ only in them are one.
func (c *checker) unnamed(m *method, d *directive.Directive, k *model.Key) {
	params := m.params()
	named := make([]bool, params.Len())
	for _, part := range k.Parts {
		switch v := part.Value; {
		case v == nil:
		case v.Func != nil:
			for _, i := range v.Func.Args {
				named[i] = true
			}
		default:
			named[v.Param] = true
		}
	}
	for i, ok := range named {
		if !ok {
			from, to := d.Key.ValuePos()
			c.list.Warn(from, to, "the key leaves out %s, so %s gives one lock to all that differ only in it; add {%s} to the key", params.At(i).Name(), m.fn.Name(), params.At(i).Name())
		}
	}
}

// outlasts warns of a result that is likely to be used after the method has returned, although its type doesn't say so as clearly as those for which
// scope= has to be given.
func (c *checker) outlasts(m *method) {
	for v := range m.fn.Signature().Results().Variables() {
		d, name := m.directives[0], m.fn.Name()
		part, found := c.later.in(v.Type())
		switch {
		case !found:
			continue
		case part == "":
			c.list.Warn(d.Slash, d.End, "%s returns %s, which is used after the call, when the lock is released already; if that is meant, say scope=return", name, c.typeName(v.Type()))
		default:
			if part = "its " + part; strings.HasSuffix(part, " []") {
				part = "each element"
			}
			c.list.Warn(d.Slash, d.End, "%s returns %s, and %s is used after the call, when the lock is released already; if that is meant, say scope=return",
				name, c.typeName(v.Type()), part)
		}
		return
	}
}

// A later finds what is used after the call, and remembers types in which it has found nothing: methods of a package return the same ones.
type later struct{ nothing map[place]bool }

// A place is where a type was met: as a result, as a field or as an element.
type place struct {
	typ          types.Type
	inner, field bool
}

// in finds the part of a result that is used after the call: the way to it from a value of the type, empty for the type itself.
func (l *later) in(t types.Type) (part string, found bool) {
	seen := map[place]bool{}
	part, found = l.find(place{typ: t}, "", seen)
	if !found {
		if l.nothing == nil {
			l.nothing = map[place]bool{}
		}
		maps.Copy(l.nothing, seen)
	}
	return part, found
}

// find looks into a type. In a struct only what the caller can reach and nobody has to close counts: most fields that have a Close live as long as the
// program.
func (l *later) find(p place, path string, seen map[place]bool) (part string, found bool) {
	if _, basic := p.typ.(*types.Basic); basic || seen[p] || l.nothing[p] {
		return "", false
	}
	seen[p] = true
	if lasts := lasts(p.typ); used(p.typ) || p.inner && lasts != passing && !(p.field && (lasts == closed || lasts == closable)) {
		return strings.TrimPrefix(path, "."), true
	}
	switch u := types.Unalias(p.typ).Underlying().(type) {
	case *types.Pointer:
		return l.find(place{u.Elem(), path != "", p.field}, path, seen)
	case *types.Slice:
		return l.find(place{u.Elem(), true, false}, path+"[]", seen)
	case *types.Array:
		return l.find(place{u.Elem(), true, false}, path+"[]", seen)
	case *types.Map:
		return l.find(place{u.Elem(), true, false}, path+"[]", seen)
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() {
				if part, found = l.find(place{f.Type(), true, true}, path+"."+f.Name(), seen); found {
					return part, true
				}
			}
		}
	}
	return "", false
}

// used reports whether a type is known, or known by its methods, to be used after the call: something to read from, to
// step through or to commit.
func used(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok && isNamed(p.Elem(), "net/http", "Response") {
		return true
	}
	has := func(name string) bool {
		obj, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
		_, ok := obj.(*types.Func)
		return ok
	}
	switch {
	case implementsContext(t), has("Next") && (has("Stop") || has("Close")), has("Commit") && has("Rollback"):
		return true
	}
	return types.IsInterface(t) && has("Read")
}
