package check

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates"
)

// A method is one of an annotated interface, with where it is declared and what the table has for it.
type method struct {
	iface      string // the interface of the method
	fn         *types.Func
	field      *ast.Field // nil if it is declared in another package
	effect     *effect    // nil if nothing is said about it
	directives []*directive.Directive
}

// pos is where a mistake of the method is shown: at its name, or at the interface if it is from elsewhere.
func (m *method) pos(iface *directive.Interface) (from, to token.Pos) {
	at := m.ident(iface)
	return at.Pos(), at.End()
}

func (m *method) ident(iface *directive.Interface) *ast.Ident {
	if m.field != nil {
		return m.field.Names[0]
	}
	return iface.Spec.Name
}

func (m *method) has(verb directive.Verb) bool {
	return slices.ContainsFunc(m.directives, func(d *directive.Directive) bool { return d.Verb == verb })
}

// params are the parameters with the names that the directives know them by.
func (m *method) params() *types.Tuple {
	params := m.fn.Signature().Params()
	if m.effect == nil || len(m.effect.names) != params.Len() {
		return params
	}
	vars := make([]*types.Var, params.Len())
	for i, name := range m.effect.names {
		vars[i] = params.At(i)
		if name != vars[i].Name() {
			vars[i] = types.NewVar(vars[i].Pos(), vars[i].Pkg(), name, vars[i].Type())
		}
	}
	return types.NewTuple(vars...)
}

// names are what the parameters are called in the output. One without a name has that of the declaration that has the directive, or one like it if another
// parameter has that name: messages and paths tell parameters by their names.
func (m *method) names() []string {
	var names []string
	taken := &templates.Names{}
	for p := range m.fn.Signature().Params().Variables() {
		names = append(names, p.Name())
		taken.Reserve(p.Name())
	}
	for i, p := range slices.Collect(m.params().Variables()) {
		if isBlank(names[i]) && !isBlank(p.Name()) {
			names[i] = taken.Pick(p.Name())
		}
	}
	return names
}

func isBlank(name string) bool { return name == "" || name == "_" }

// methods lists the methods of an interface in the order in which they are declared, with what is embedded where it is embedded.
func (c *checker) methods(iface *directive.Interface, obj *types.TypeName, typ *types.Interface) []*method {
	set := map[string]*types.Func{}
	for m := range typ.Methods() {
		set[m.Name()] = m
	}
	l := &lister{c: c, iface: iface, set: set, found: map[string]*method{}, visited: map[*ast.TypeSpec]bool{}}
	if it, ok := ast.Unparen(iface.Spec.Type).(*ast.InterfaceType); ok {
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
	all := c.run.entries(obj.Type())
	return slices.DeleteFunc(l.order, func(m *method) bool { return !c.settled(iface, m, all[m.fn.Name()]) })
}

// settled gives a method what the table has for it. It reports whether that is one thing.
func (c *checker) settled(iface *directive.Interface, m *method, e *entry) bool {
	m.iface = iface.Spec.Name.Name
	if e == nil {
		return true
	}
	before := c.list.Len()
	for _, one := range e.effects {
		c.noteAll(one.wrong)
	}
	ok := c.list.Len() == before
	for _, one := range e.effects {
		c.noteAll(c.run.defaults(one.owner).wrong)
	}
	if !ok {
		return false
	}
	before = c.list.Len()
	if len(e.effects) == 0 {
		return true
	}
	first := e.effects[0]
	m.effect = first
	var texts []string
	for i, one := range e.effects[1:] {
		if i == 0 {
			texts = append(texts, first.text(c.run.levels(first, c.preset)))
		}
		switch text := one.text(c.run.levels(one, c.preset)); {
		case !slices.Contains(texts, text):
			texts = append(texts, text)
			c.conflict(m, e, first, one)
		case text == texts[0] && m.effect.via == nil:
			m.effect = one // which has builders
		}
	}
	m.directives = m.effect.directives
	return c.list.Len() == before && c.near(iface, m)
}

// noteAll notes mistakes that were found when a file of another package was read.
func (c *checker) noteAll(wrong []diag.Diagnostic) {
	for _, d := range wrong {
		c.list.AddAt(d.Pos, d.Width, "%s", d.Message)
	}
}

// conflict notes that a method reaches an interface with two effects.
func (c *checker) conflict(m *method, e *entry, first, second *effect) {
	name, of := m.fn.Name(), m.iface
	at, other := c.apart(second, first), c.apart(first, second)
	how := "above " + of + " which it is to be, with method=" + name
	if e.own {
		how = "directly above it in " + of + " which it is to be"
	}
	c.list.Add(at.Slash, at.End, "%s is embedded in %s twice, with this and with something else at %s: say %s", name, of, c.list.PlaceFrom(at.Slash, other.Slash), how)
}

// apart is the directive by which an effect differs from another one: the locks, or the options of an interface that it was inherited by.
func (c *checker) apart(e, other *effect) *directive.Directive {
	if placeOf(c.list, e.directives[0].Slash) == placeOf(c.list, other.directives[0].Slash) {
		for _, d := range e.over {
			if !slices.Contains(other.over, d) {
				return d
			}
		}
	}
	return e.directives[0]
}

// near reports whether the author of a lock that a method inherits can have meant the program that it is wrapped in,
// and not only that of another module.
func (c *checker) near(iface *directive.Interface, m *method) bool {
	d := m.effect.owner
	if d.pkg == c.pkg.Types || !m.effect.locks() || module(d.file) == module(c.pkg.Files[0].Name) {
		return true
	}
	at, name := iface.Spec.Name, m.fn.Name()
	c.list.Add(at.Pos(), at.End(),
		"%s has a lock where it is declared, in package %s of another module: say above %s what it is to hold, with //lockgen:lock method=%s or //lockgen:nolock method=%s",
		name, d.pkg.Path(), at.Name, name, name)
	return false
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

func (l *lister) own(f *ast.Field) *method { return &method{fn: l.set[f.Names[0].Name], field: f} }

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
		if l.implementable(m) && l.found[m.Name()] == nil {
			l.add(&method{fn: l.set[m.Name()]})
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
		}
	}
}

func (l *lister) add(m *method) {
	if m.fn == nil {
		return
	}
	l.found[m.fn.Name()] = m
	l.order = append(l.order, m)
}

// implementable reports whether a method of another package can be written here.
func (l *lister) implementable(fn *types.Func) bool {
	if fn.Exported() || fn.Pkg() == l.c.pkg.Types {
		return true
	}
	if iface := l.iface.Spec.Name; !l.hidden {
		l.c.list.Add(iface.Pos(), iface.End(), "%s has the method %s of package %s, which can't be implemented here", iface.Name, fn.Name(), fn.Pkg().Path())
	}
	l.hidden = true
	return false
}
