package check

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
)

// A decl is an interface where it is declared, with what its directives say.
type decl struct {
	pkg       *types.Package
	name      string
	file      string // that it stands in
	place     string
	directive *directive.Directive   // service or locks, or nil
	others    []*directive.Directive // for methods that it embeds
	methods   map[string]*said       // those with directives, right or wrong
	wrong     []diag.Diagnostic      // mistakes in what is said about all of it, unless they were noted when its package was read

	literal bool       // it is declared by its methods, and not by the name of another type
	of      types.Type // that other type
	inexact bool       // it has type arguments, which are known only while the package is checked
}

// said is what stands at one method of an interface.
type said struct {
	directives []*directive.Directive
	wrong      []diag.Diagnostic
	place      string
}

// A source is what is known of the interfaces of a package.
type source struct {
	decls    map[string]*decl
	whole    bool // all of them are in decls, and the defaults are known
	asked    bool // the defaults are known
	defaults *directive.Directive
	wrong    []diag.Diagnostic // mistakes in the package comments
}

func (r *Run) source(pkg *types.Package) *source {
	s := r.sources[pkg]
	if s == nil {
		s = &source{decls: map[string]*decl{}}
		r.sources[pkg] = s
	}
	return s
}

// decl finds the declaration of a type. There is none for one that isn't declared in package scope, or whose source can't be read.
func (r *Run) decl(obj *types.TypeName) *decl {
	if obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return nil
	}
	s := r.source(obj.Pkg())
	d, ok := s.decls[obj.Name()]
	if !ok && !s.whole {
		d = r.read(obj)
		s.decls[obj.Name()] = d
	}
	return d
}

// read finds the declaration of a type in another package than the one that is checked.
func (r *Run) read(obj *types.TypeName) *decl {
	name := r.list.Fset().PositionFor(obj.Pos(), false).Filename
	src, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	if !directive.Mentioned(src) && bytes.Contains(src, []byte("\ntype "+obj.Name()+" interface {")) {
		return &decl{pkg: obj.Pkg(), name: obj.Name(), file: name, literal: true} // as most are
	}
	f := r.parsed(name, src)
	if f == nil {
		return nil
	}
	before := f.line(f.syntax.Name.End()) // the last line that is about something else
	for _, node := range f.syntax.Decls {
		if group, ok := node.(*ast.GenDecl); ok {
			begin := f.line(group.TokPos)
			last := begin
			for _, spec := range group.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.Name == obj.Name() {
					d := f.decl(r, obj, spec)
					d.wrong = append(d.wrong, f.between(before, begin)...) // above a group it is about all of them
					d.wrong = append(d.wrong, f.between(last, f.line(spec.Name.Pos()))...)
					return d
				}
				last = f.line(spec.End())
			}
		}
		before = f.line(node.End())
	}
	return nil
}

// A parsed file is one of another package, with its directives.
type parsed struct {
	fset   *token.FileSet
	syntax *ast.File
	found  *directive.File
	wrong  []diag.Diagnostic
}

// parsed reads a file with its directives, once. Other mistakes in the file do not matter: the types came from the
// readable parts of it, too.
func (r *Run) parsed(name string, src []byte) *parsed {
	if f, ok := r.files[name]; ok {
		return f
	}
	fset := r.list.Fset()
	r.files[name] = nil
	if file, _ := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution); file != nil {
		list := diag.New(fset)
		found := directive.Collect(list, file)
		r.files[name] = &parsed{fset, file, found, list.Sorted()}
	}
	return r.files[name]
}

func (f *parsed) line(pos token.Pos) int { return f.fset.PositionFor(pos, false).Line }

// between lists the mistakes in the lines behind one and up to another.
func (f *parsed) between(after, upto int) []diag.Diagnostic {
	var found []diag.Diagnostic
	for _, d := range f.wrong {
		if after < d.Pos.Line && d.Pos.Line <= upto {
			found = append(found, d)
		}
	}
	return found
}

// decl collects what the file says about one of its interfaces.
func (f *parsed) decl(r *Run, obj *types.TypeName, spec *ast.TypeSpec) *decl {
	d := newDecl(r.list, obj.Pkg(), spec, f.found)
	iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
	if !ok {
		d.of, d.inexact = named(obj.Pkg(), f.syntax, spec.Type), instantiates(spec.Type)
		d.wrong = append(d.wrong, f.between(f.line(spec.Name.Pos()), f.line(spec.End()))...)
		if d.of == nil && !spec.Assign.IsValid() { // of an alias its type tells
			r.unsure = append(r.unsure, r.list.Fset().PositionFor(spec.Type.Pos(), false))
		}
		return d
	}
	last := f.line(spec.Name.Pos())
	for _, field := range iface.Methods.List {
		end := f.line(field.End())
		wrong := f.between(last, end)
		switch {
		case len(wrong) == 0:
		case len(field.Names) == 0:
			d.wrong = append(d.wrong, wrong...)
		default:
			d.said(r.list, field).wrong = wrong
		}
		last = max(last, end)
	}
	d.wrong = append(d.wrong, f.between(last, f.line(spec.End()))...)
	return d
}

// newDecl collects the directives of an interface.
func newDecl(list *diag.List, pkg *types.Package, spec *ast.TypeSpec, files ...*directive.File) *decl {
	d := &decl{
		pkg: pkg, name: spec.Name.Name,
		file: list.Fset().PositionFor(spec.Pos(), false).Filename, place: placeOf(list, spec.Name.Pos()),
		methods: map[string]*said{},
	}
	iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
	d.literal = ok
	for _, file := range files {
		for _, i := range file.Interfaces {
			if i.Spec == spec {
				d.directive = i.Directive
			}
		}
		d.others = append(d.others, file.Others[spec]...)
		if !ok {
			continue
		}
		for _, field := range iface.Methods.List {
			if directives := file.Methods[field]; len(directives) > 0 {
				d.said(list, field).directives = directives
			}
		}
	}
	return d
}

// said is what stands at a method.
func (d *decl) said(list *diag.List, field *ast.Field) *said {
	name := field.Names[0].Name
	if d.methods[name] == nil {
		d.methods[name] = &said{place: placeOf(list, field.Names[0].Pos())}
	}
	return d.methods[name]
}

// placeOf names a position, whichever time its file was parsed.
func placeOf(list *diag.List, pos token.Pos) string {
	p := list.Fset().PositionFor(pos, false)
	return p.Filename + ":" + strconv.Itoa(p.Offset)
}

// instantiates reports whether an expression gives a generic type its arguments.
func instantiates(e ast.Expr) bool {
	switch ast.Unparen(e).(type) {
	case *ast.IndexExpr, *ast.IndexListExpr:
		return true
	}
	return false
}

// named finds the type that an expression names in a file of another package, without type arguments.
func named(pkg *types.Package, file *ast.File, e ast.Expr) types.Type {
	var obj types.Object
	switch e := ast.Unparen(e).(type) {
	case *ast.IndexExpr:
		return named(pkg, file, e.X)
	case *ast.IndexListExpr:
		return named(pkg, file, e.X)
	case *ast.Ident:
		if obj = pkg.Scope().Lookup(e.Name); obj == nil {
			obj = imported(pkg, file, ".", e.Name)
		}
		if obj == nil {
			obj = types.Universe.Lookup(e.Name)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			obj = imported(pkg, file, x.Name, e.Sel.Name)
		}
	}
	if name, ok := obj.(*types.TypeName); ok {
		return name.Type()
	}
	return nil
}

// imported finds an object in the package that a file imports under a name.
func imported(pkg *types.Package, file *ast.File, under, name string) types.Object {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		for _, dep := range pkg.Imports() {
			local := dep.Name()
			if spec.Name != nil {
				local = spec.Name.Name
			}
			if local != under || dep.Path() != path && !strings.HasSuffix(dep.Path(), "/vendor/"+path) {
				continue
			}
			if obj := dep.Scope().Lookup(name); obj != nil {
				return obj
			}
		}
	}
	return nil
}

// defaults are the options of the package that an interface is declared in.
func (r *Run) defaults(d *decl) *source {
	s := r.source(d.pkg)
	if s.whole || s.asked {
		return s
	}
	s.asked = true
	for _, f := range r.filesOf(d, directive.Mentioned) {
		s.wrong = append(s.wrong, f.between(0, f.line(f.syntax.Name.End()))...)
		if s.defaults == nil {
			s.defaults = f.found.Defaults
		}
	}
	return s
}

// filesOf reads those files of the package of an interface that are wanted, by what is in them.
func (r *Run) filesOf(d *decl, wanted func(src []byte) bool) []*parsed {
	dir := filepath.Dir(d.file)
	entries, err := os.ReadDir(dir) // not filepath.Glob: the path of a directory can have brackets
	if err != nil {
		return nil
	}
	var files []*parsed
	for _, entry := range entries {
		base := entry.Name()
		name := filepath.Join(dir, base)
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") && !strings.HasSuffix(d.file, "_test.go") || !load.Regular(name) {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil || !wanted(src) {
			continue
		}
		if ok, err := r.build.MatchFile(dir, base); err != nil || !ok {
			continue
		}
		if f := r.parsed(name, src); f != nil && f.syntax.Name.Name == d.pkg.Name() {
			files = append(files, f)
		}
	}
	return files
}

// own makes the interfaces of the package that is checked known.
func (c *checker) own() {
	s := c.run.source(c.pkg.Types)
	*s = source{decls: map[string]*decl{}, whole: true, defaults: c.preset}
	var files []*directive.File
	for _, f := range slices.Concat(c.pkg.Shared, c.pkg.Files) {
		files = append(files, f.Directives)
	}
	for _, spec := range c.specs {
		obj, ok := c.pkg.Info.Defs[spec.Name].(*types.TypeName)
		if !ok || !types.IsInterface(obj.Type()) {
			continue
		}
		d := newDecl(c.list, c.pkg.Types, spec, files...)
		if !d.literal {
			d.of, d.inexact = c.pkg.Info.TypeOf(spec.Type), instantiates(spec.Type)
		}
		s.decls[d.name] = d
	}
}
