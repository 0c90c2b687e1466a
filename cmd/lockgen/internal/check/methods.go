package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

// A method is one of an annotated interface, with where it is declared.
type method struct {
	fn         *types.Func
	field      *ast.Field // nil if it is declared in another package
	directives []*directive.Directive
	abroad     bool // the directives stand in another package
}

// pos is where a mistake of the method is shown: at its name, or at the interface if it is from elsewhere.
func (m *method) pos(iface *directive.Interface) (from, to token.Pos) {
	if m.field != nil {
		return m.field.Names[0].Pos(), m.field.Names[0].End()
	}
	return iface.Spec.Name.Pos(), iface.Spec.Name.End()
}

func (m *method) has(verb directive.Verb) bool {
	return slices.ContainsFunc(m.directives, func(d *directive.Directive) bool { return d.Verb == verb })
}

// methods lists the methods of an interface in the order in which they are declared, with what is embedded where it is embedded.
func (c *checker) methods(iface *directive.Interface, typ *types.Interface) []*method {
	set := map[string]*types.Func{}
	for m := range typ.Methods() {
		set[m.Name()] = m
	}
	l := &lister{c: c, iface: iface, set: set, found: map[string]*method{}, visited: map[*ast.TypeSpec]bool{}}
	if it, ok := iface.Spec.Type.(*ast.InterfaceType); ok {
		// Its own methods come first: one that an embedded interface has too is then this one.
		for _, f := range it.Methods.List {
			if len(f.Names) == 0 {
				continue
			}
			switch old := l.found[f.Names[0].Name]; {
			case f.Names[0].Name == "_":
				c.list.Add(f.Names[0].Pos(), f.Names[0].End(), "a method needs a name")
			case old != nil:
				c.list.Add(f.Names[0].Pos(), f.Names[0].End(), "%s is declared twice, first at %s", f.Names[0].Name, c.list.Place(old.field.Pos()))
			default:
				l.found[f.Names[0].Name] = l.own(f)
			}
		}
	}
	l.expr(iface.Spec.Type)
	l.overrides()
	return l.order
}

// overrides gives embedded methods the directives that stand above the interface for them, instead of those where they are declared.
func (l *lister) overrides() {
	given := map[*method]bool{}
	for _, d := range l.c.others[l.iface.Spec] {
		name := d.Method.Value
		m, from, to := l.found[name], d.Method.Pos, d.Method.End
		switch {
		case m == nil:
			var names []string
			for name := range l.set {
				names = append(names, name)
			}
			slices.Sort(names)
			l.c.list.Add(from, to, "%s has no method %s%s", l.iface.Spec.Name.Name, name, diag.Suggest(name, names))
			continue
		case l.declares(m):
			l.c.list.Add(from, to, "%s is declared in %s: put the directive directly above it, without method", name, l.iface.Spec.Name.Name)
			continue
		case !given[m]:
			given[m] = true
			m.directives, m.abroad = nil, false
		}
		m.directives = append(m.directives, d)
	}
}

// declares says whether a method stands in the interface itself.
func (l *lister) declares(m *method) bool {
	it, ok := l.iface.Spec.Type.(*ast.InterfaceType)
	return ok && slices.Contains(it.Methods.List, m.field)
}

// overridden says whether a directive above the interface is for the method.
func (l *lister) overridden(name string) bool {
	return slices.ContainsFunc(l.c.others[l.iface.Spec], func(d *directive.Directive) bool { return d.Method.Value == name })
}

// A lister collects methods.
type lister struct {
	c       *checker
	iface   *directive.Interface
	set     map[string]*types.Func
	found   map[string]*method
	order   []*method
	visited map[*ast.TypeSpec]bool
	hidden  bool // a method that can't be implemented was noted
}

func (l *lister) own(f *ast.Field) *method {
	return &method{fn: l.set[f.Names[0].Name], field: f, directives: l.c.docs[f]}
}

// expr goes through the type that is declared or embedded.
func (l *lister) expr(e ast.Expr) {
	if it, ok := ast.Unparen(e).(*ast.InterfaceType); ok {
		l.literal(it)
		return
	}
	typ := l.c.pkg.Info.TypeOf(e)
	if typ == nil || l.c.unknown(e, typ.Underlying()) {
		return
	}
	var obj *types.TypeName
	switch t := typ.(type) {
	case *types.Named:
		obj = t.Obj()
	case *types.Alias:
		obj = t.Obj()
	}
	if obj != nil {
		if spec := l.c.specs[obj.Pos()]; spec != nil {
			if !l.visited[spec] {
				l.visited[spec] = true
				l.expr(spec.Type)
			}
			return
		}
	}
	under, ok := typ.Underlying().(*types.Interface)
	if !ok {
		return
	}
	for m := range under.Methods() {
		directives, ok := l.foreign(m)
		switch old := l.found[m.Name()]; {
		case !ok:
		case old == nil:
			l.add(&method{fn: l.set[m.Name()], directives: directives, abroad: len(directives) > 0})
		default:
			l.conflict(old, directives, true)
		}
	}
}

// literal goes through the methods and embedded types of an interface in this package.
func (l *lister) literal(it *ast.InterfaceType) {
	for _, f := range it.Methods.List {
		if len(f.Names) == 0 {
			l.expr(f.Type)
			continue
		}
		name := f.Names[0].Name
		switch old := l.found[name]; {
		case old == nil:
			l.add(l.own(f))
		case old.field == f:
			l.add(old)
		default:
			l.c.consumed[f] = true
			l.conflict(old, l.c.docs[f], false)
		}
	}
}

func (l *lister) add(m *method) {
	if m.fn == nil {
		return
	}
	l.found[m.fn.Name()] = m
	if m.field != nil {
		l.c.consumed[m.field] = true
	}
	l.order = append(l.order, m)
}

// conflict handles a method that is embedded a second time, with these directives. One that the interface declares itself overrides both, if it
// has some.
func (l *lister) conflict(old *method, directives []*directive.Directive, abroad bool) {
	name, iface := old.fn.Name(), l.iface.Spec.Name
	switch {
	case l.declares(old) && len(old.directives) == 0 && len(directives) > 0 && directives[0].Verb == directive.Lock:
		from, to := old.pos(l.iface)
		l.c.list.Add(from, to, "%s has a lock at %s, where it is declared too, and none here: put //lockgen:lock or //lockgen:nolock above it",
			name, l.c.list.Place(directives[0].Slash))
	case l.declares(old), len(directives) == 0, l.overridden(name), l.agree(directives, old.directives):
	case len(old.directives) == 0:
		old.directives, old.abroad = directives, abroad
	default:
		d := directives[0]
		l.c.list.Add(d.Slash, d.End, "%s is embedded in %s twice, with this and with something else at %s: say above %s which it is to be, with method=%s",
			name, iface.Name, l.c.list.Place(old.directives[0].Slash), iface.Name, name)
	}
}

// agree says whether two methods have the same directives, word for word.
func (l *lister) agree(a, b []*directive.Directive) bool {
	return slices.EqualFunc(a, b, func(x, y *directive.Directive) bool { return x.Text == y.Text })
}

// foreign finds the directives of a method where it is declared, in another package. It says whether the method can be written here, and locked as
// its author relies on.
func (l *lister) foreign(fn *types.Func) (directives []*directive.Directive, ok bool) {
	name, iface := fn.Name(), l.iface.Spec.Name
	if !fn.Exported() && fn.Pkg() != l.c.pkg.Types {
		if !l.hidden {
			l.c.list.Add(iface.Pos(), iface.End(), "%s has the method %s of package %s, which can't be implemented here", iface.Name, name, fn.Pkg().Path())
		}
		l.hidden = true
		return nil, false
	}
	fset := l.c.list.Fset()
	pos := fset.PositionFor(fn.Pos(), false)
	src, err := os.ReadFile(pos.Filename)
	if err != nil || !directive.Mentioned(src) {
		return nil, true
	}
	// What is wrong elsewhere in the file is no matter: the type of the method came from what could be read of it too.
	file, _ := parser.ParseFile(fset, pos.Filename, src, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil {
		return nil, true
	}
	wrong := diag.New(fset)
	found := directive.Collect(wrong, file)
	if !l.overridden(name) && l.mistaken(file, pos, wrong) {
		return nil, false
	}
	for f, directives := range found.Methods {
		if fset.PositionFor(f.Names[0].Pos(), false).Offset != pos.Offset {
			continue
		}
		l.c.run.consumed[place(pos)] = true
		if module(pos.Filename) == module(l.c.pkg.Files[0].Name) || l.overridden(name) || directives[0].Verb == directive.NoLock {
			return directives, true
		}
		l.c.list.Add(iface.Pos(), iface.End(),
			"%s has a lock where it is declared, in package %s of another module: say above %s what it is to hold, with //lockgen:lock method=%s or //lockgen:nolock method=%s",
			name, fn.Pkg().Path(), iface.Name, name, name)
		return nil, false
	}
	return nil, true
}

// mistaken notes what is wrong with the directives of a method where it is declared: its package need not be in the run, and without them the
// method would go unlocked.
func (l *lister) mistaken(file *ast.File, pos token.Position, wrong *diag.List) bool {
	fset, before := l.c.list.Fset(), l.c.list.Len()
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if !ok || f.Doc == nil || len(f.Names) == 0 || fset.PositionFor(f.Names[0].Pos(), false).Offset != pos.Offset {
			return true
		}
		from, to := fset.PositionFor(f.Doc.Pos(), false).Offset, fset.PositionFor(f.End(), false).Offset
		for _, d := range wrong.Sorted() {
			if from <= d.Pos.Offset && d.Pos.Offset <= to {
				l.c.list.AddAt(d.Pos, d.Width, "%s", d.Message)
			}
		}
		return false
	})
	return l.c.list.Len() > before
}

// place names a position, whichever time its file was parsed.
func place(pos token.Position) string { return fmt.Sprintf("%s:%d", pos.Filename, pos.Offset) }

// module is the directory of the module that a file is of.
func module(name string) string {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// doc is what a method's comment says, without directives.
func (m *method) doc() []string {
	if m.field == nil || m.field.Doc == nil {
		return nil
	}
	text := strings.TrimRight(m.field.Doc.Text(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
