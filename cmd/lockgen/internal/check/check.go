// Package check turns directives and types into the model of each output. Every mistake that the types show is found here, all of a run.
package check

import (
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/templates"
	"github.com/lockgen/lockgen/templates/model"
)

// An Output is one file to be written.
type Output struct {
	Source string // the file that it is made from
	Model  *model.File
	Uses   []Use // the locks of its interfaces, in their order
	Unsure bool  // something that counts is not known
}

// A Use is one method of an annotated interface and what it locks.
type Use struct {
	Name      string // orders.Service.Pay
	Interface *types.TypeName
	Verb      directive.Verb // of the interface
	Method    *model.Method
	Pos       token.Pos // of the method, or of the interface if the method is from elsewhere
	Keys      []UsedKey // none if it has no lock
	NoLock    bool      // which is said by a directive
	Options   []directive.Given
}

// A UsedKey is a key with the directive that says it.
type UsedKey struct {
	*model.Key
	Directive *directive.Directive
	Package   string // where that stands: a function that it names is of this package
}

// A Run checks packages one after the other.
type Run struct {
	list     *diag.List
	build    build.Context
	table    table
	sources  map[*types.Package]*source
	unsure   []token.Position   // of types by whose names interfaces are declared, and that are not known
	files    map[string]*parsed // of packages that were read for what is embedded
	consumed map[string]bool    // places of methods and interfaces that an annotated interface has
	waiting  []waiting
}

// waiting is a directive that stands on an interface which is not annotated: one of another package may embed it.
type waiting struct {
	place     string // of the method, or of the interface
	directive *directive.Directive
	owner     string
	hint      string
}

// NewRun begins a run, which notes in list. The context has the system, the tags and the like that the packages are built for.
func NewRun(list *diag.List, context build.Context) *Run {
	return &Run{list: list, build: context, table: table{}, sources: map[*types.Package]*source{}, files: map[string]*parsed{}, consumed: map[string]bool{}}
}

// Package checks one package. Its result is complete only if it noted no mistake.
func (r *Run) Package(pkg *load.Package) []Output { return newChecker(r.list, pkg, r).check() }

// End notes the directives that no package of the run has a use for.
func (r *Run) End() {
	for _, at := range r.unsure {
		r.list.AddAt(at, 1, "this type is not known")
	}
	for _, w := range r.waiting {
		if d := w.directive; !r.consumed[w.place] {
			r.list.Add(d.Slash, d.End, "%s is not annotated, so this has no effect: put %s", w.owner, w.hint)
		}
	}
}

// Package checks one package alone, which is built for the context. The directives of embeddable interfaces may be in other packages, and some types
// may be unknown.
func Package(list *diag.List, pkg *load.Package, context build.Context) []Output {
	r := NewRun(list, context)
	outputs := r.Package(pkg)
	scope := pkg.Types.Scope()
	for _, name := range scope.Names() {
		if obj, ok := scope.Lookup(name).(*types.TypeName); ok && obj.Exported() && types.IsInterface(obj.Type()) {
			r.entries(obj.Type())
		}
	}
	for i := range outputs {
		outputs[i].Unsure = len(r.unsure) > 0
	}
	r.unsure = nil
	r.End()
	return outputs
}

func newChecker(list *diag.List, pkg *load.Package, r *Run) *checker {
	return &checker{
		run:   r,
		list:  list,
		pkg:   pkg,
		names: &templates.Names{},
		given: map[string]token.Pos{},
		named: map[*directive.Interface]names{},
		specs: map[token.Pos]*ast.TypeSpec{},
	}
}

func (c *checker) check() []Output {
	c.index()
	c.defaults()
	c.own()
	c.nameAll()
	var outputs []Output
	for _, file := range c.pkg.Files {
		c.uses = nil
		if out := c.file(file); out != nil {
			outputs = append(outputs, Output{Source: file.Name, Model: out, Uses: c.uses})
		}
	}
	c.unconsumed()
	return outputs
}

// A checker works on one package.
type checker struct {
	run    *Run
	list   *diag.List
	pkg    *load.Package
	timing directive.Timing     // of the package
	preset *directive.Directive // where that is from, or nil
	uses   []Use                // of the file that is being checked
	names  *templates.Names     // package scope and what is generated
	peers  []peer               // of all files of the package, also of those that are not built
	given  map[string]token.Pos
	named  map[*directive.Interface]names
	specs  map[token.Pos]*ast.TypeSpec // of the package, by the position of the name
	wrong  bool                        // directives are missing for the mistakes in them, so nothing is said about what isn't there
	nodes  map[string][]ast.Node       // declarations of the package, by name
	later  later
}

// names are those that the output declares for an interface.
type names struct{ typ, constructor, keys string }

// index makes declarations and directives findable.
func (c *checker) index() {
	for _, file := range c.pkg.Syntax {
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok {
					c.specs[spec.Name.Pos()] = spec
				}
			}
		}
	}
	for _, file := range c.pkg.Files {
		c.wrong = c.wrong || file.Wrong
	}
	for _, shared := range c.pkg.Shared {
		if d := shared.Directives.Defaults; d != nil {
			c.timing, c.preset = d.Timing, d
		}
	}
	for name := range c.pkg.Declared {
		c.names.Reserve(name)
	}
	for name := range c.pkg.Imported {
		c.names.Reserve(name)
	}
	c.survey()
}

// defaults finds the options of the package.
func (c *checker) defaults() {
	var first *directive.Directive
	for _, file := range c.pkg.Files {
		d := file.Directives.Defaults
		switch {
		case d == nil:
		case first != nil:
			c.list.Add(d.Slash, d.End, "defaults is given twice for package %s, first at %s", c.pkg.Name, c.list.Place(first.Slash))
		default:
			first = d
			c.timing, c.preset = d.Timing, d
		}
	}
	// Interfaces that others embed have the defaults of their package, too.
	counts := slices.ContainsFunc(c.pkg.Files, func(f *load.File) bool {
		return len(f.Directives.Interfaces)+len(f.Directives.Others)+len(f.Directives.Methods) > 0
	})
	if first != nil && !counts && !c.wrong && !c.pkg.Others {
		c.list.Add(first.Slash, first.End, "package %s has no interface with service or locks, so these defaults have no effect", c.pkg.Name)
	}
}

// nameAll settles what the outputs declare, before anything is checked: a signature may mention such a name.
func (c *checker) nameAll() {
	// The outputs of shared files are in the same scope, and have been named already: what is wrong with these names was noted then.
	for _, file := range c.pkg.Shared {
		for _, iface := range file.Directives.Interfaces {
			c.nameOne(iface)
		}
	}
	for _, file := range c.pkg.Files {
		for _, iface := range file.Directives.Interfaces {
			if c.pkg.Info.Defs[iface.Spec.Name] != nil {
				c.named[iface] = c.nameOne(iface)
			}
		}
	}
}

func (c *checker) nameOne(iface *directive.Interface) names {
	n, d := namesOf(iface), iface.Directive
	pos, end := iface.Spec.Name.Pos(), iface.Spec.Name.End()
	if d.Name != nil {
		pos, end = d.Name.ValuePos()
		if wrong := c.unusable(d.Name.Value); wrong != "" {
			c.list.Add(pos, end, "name %q %s", d.Name.Value, wrong)
			return n
		}
	}
	if d.Verb == directive.Locks {
		n.typ = c.pickType(iface)
		c.given[n.typ] = pos
	} else {
		c.claim(n.typ, pos, end, hintName)
	}
	c.claim(n.constructor, pos, end, hintName)
	c.claim(n.keys, iface.Spec.Name.Pos(), iface.Spec.Name.End(), "rename one of them")
	return n
}

// namesOf are the names that the output declares for an interface, unless the type of locks has to have another one.
func namesOf(iface *directive.Interface) names {
	base, d := iface.Spec.Name.Name, iface.Directive
	n := names{typ: iface.Wrapper(), keys: keysOf(base)}
	n.constructor = directive.Prefixed("New", n.typ)
	if d.Verb == directive.Locks {
		n.typ, n.constructor = typePrefix+upperFirst(base), directive.Prefixed("New", base)
		if d.Name != nil {
			n.constructor = d.Name.Value
		}
	}
	return n
}

// unusable says why nothing in package scope can have a name, or "".
func (c *checker) unusable(name string) string {
	switch {
	case !token.IsIdentifier(name) || name == "_":
		return "is not an identifier"
	case types.Universe.Lookup(name) != nil:
		return "is predeclared, and the output needs what it stands for"
	case name == "init" || name == "main" && c.pkg.Name == "main":
		return "is for a function"
	}
	for _, file := range c.pkg.Files {
		if path, imported := file.Imports[name]; imported {
			return "is that of an import here, " + path
		}
	}
	return ""
}

const hintName = "choose another with name="

// claim reserves a name in package scope for the output, or notes what has the name and what to do
// about it.
func (c *checker) claim(name string, pos, end token.Pos, hint string) {
	at, declared := c.pkg.Declared[name]
	other, generated := c.given[name]
	spec, imported := c.pkg.Imported[name]
	dot, dotted := c.pkg.Dotted[name]
	switch {
	case declared:
		c.list.Add(pos, end, "the output would declare %s, which %s declares; %s", name, c.list.Place(at), hint)
	case imported:
		c.list.Add(pos, end, "the output would declare %s, the name of an import at %s; %s", name, c.list.Place(spec), hint)
	case dotted:
		c.list.Add(pos, end, "the output would declare %s, a name that the dot import at %s brings; %s", name, c.list.Place(dot), hint)
	case generated:
		c.list.Add(pos, end, "the output would declare %s twice, also for the interface at %s; %s", name, c.list.Place(other), hint)
	}
	c.names.Reserve(name)
	c.given[name] = pos
}

// file checks the interfaces of one file.
func (c *checker) file(file *load.File) *model.File {
	out := &model.File{
		Path:       c.pkg.Path,
		Name:       c.pkg.Name,
		Constraint: file.BuildLine(c.list.Fset()),
		Aliases:    map[string]string{},
	}
	for name, path := range file.Imports {
		if old, ok := out.Aliases[path]; !ok || name < old {
			out.Aliases[path] = name
		}
	}
	out.Declared = slices.AppendSeq(slices.Collect(maps.Keys(c.pkg.Declared)), maps.Keys(c.given)) // types and constructors of other outputs, too
	for _, p := range c.peers {
		n := namesOf(p.Interface)
		out.Declared = append(out.Declared, n.typ, n.constructor, n.keys)
	}
	slices.Sort(out.Declared)
	for _, iface := range file.Directives.Interfaces {
		if iface.Directive.Verb == directive.Service {
			if s := c.service(iface); s != nil {
				out.Services = append(out.Services, s)
			}
		} else if l := c.locks(iface); l != nil {
			out.Locks = append(out.Locks, l)
		}
	}
	if len(out.Services)+len(out.Locks) == 0 {
		return nil
	}
	return out
}

// unconsumed notes directives on methods that no annotated interface of the package has, for the end of the run.
func (c *checker) unconsumed() {
	if c.wrong {
		return
	}
	for _, file := range c.pkg.Files {
		for spec, directives := range file.Directives.Others {
			c.wait(spec.Name.Pos(), spec.Name.Name, "//lockgen:service above it too", directives)
		}
		for field, directives := range file.Directives.Methods {
			c.wait(field.Names[0].Pos(), file.Directives.Owners[field], "//lockgen:service or //lockgen:locks above it", directives)
		}
	}
}

func (c *checker) wait(at token.Pos, owner, hint string, directives []*directive.Directive) {
	for _, d := range directives {
		c.run.waiting = append(c.run.waiting, waiting{placeOf(c.list, at), d, owner, hint})
	}
}

// begin checks what is the same for every annotated interface. It returns no object after saying why it is none.
func (c *checker) begin(iface *directive.Interface) (*types.TypeName, *types.Interface, names) {
	obj, typ := c.object(iface)
	if obj != nil && (!c.parameters(iface.Spec) || !c.constraintLengths(iface, obj)) {
		return nil, nil, c.named[iface]
	}
	if obj != nil {
		c.prefix(iface.Directive)
		for _, name := range needed {
			c.predeclared(name, iface.Spec.Name.Pos(), iface.Spec.Name.End())
		}
	}
	return obj, typ, c.named[iface]
}

// object returns the interface that a declaration declares, or nil after saying why it is none.
func (c *checker) object(iface *directive.Interface) (*types.TypeName, *types.Interface) {
	spec, d := iface.Spec, iface.Directive
	if it, ok := ast.Unparen(spec.Type).(*ast.InterfaceType); ok {
		for _, f := range it.Methods.List {
			if len(f.Names) > 0 {
				c.run.consumed[placeOf(c.list, f.Names[0].Pos())] = true
			}
		}
	}
	c.run.consumed[placeOf(c.list, spec.Name.Pos())] = true
	if spec.Name.Name == "_" {
		c.list.Add(spec.Name.Pos(), spec.Name.End(), "an annotated interface needs a name")
		return nil, nil
	}
	obj, ok := c.pkg.Info.Defs[spec.Name].(*types.TypeName)
	if !ok {
		c.list.Add(spec.Name.Pos(), spec.Name.End(), "%s is declared twice, first at %s", spec.Name.Name, c.list.Place(c.pkg.Declared[spec.Name.Name]))
		return nil, nil
	}
	typ, ok := obj.Type().Underlying().(*types.Interface)
	switch {
	case !ok && c.unknown(spec, obj.Type().Underlying()):
		return nil, nil
	case !ok:
		c.list.Add(d.Slash, d.End, "%s belongs directly above an interface; %s is not one", d.Verb, spec.Name.Name)
		return nil, nil
	case !typ.IsMethodSet():
		c.list.Add(spec.Name.Pos(), spec.Name.End(), "%s is a constraint and has no values", spec.Name.Name)
		return nil, nil
	case spec.Assign.IsValid() && spec.TypeParams != nil:
		c.list.Add(spec.Name.Pos(), spec.Name.End(), "a generic alias is not supported; declare %s as a type of its own", spec.Name.Name)
		return nil, nil
	}
	return obj, typ
}

func typeParams(obj *types.TypeName) []*types.TypeParam {
	n, ok := obj.Type().(*types.Named)
	if !ok {
		return nil
	}
	var list []*types.TypeParam
	for tp := range n.TypeParams().TypeParams() {
		list = append(list, tp)
	}
	return list
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
