package partial

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"iter"
	"os"
	"slices"
	"strconv"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/templates"
)

// A Program is the packages of a run, with all that they import.
type Program struct {
	// Abroad are the mistakes in packages without directives, by their paths.
	Abroad map[string][]types.Error

	fset  *token.FileSet
	arch  string // that the packages are built for
	units map[string]*Unit
	whole bool // types that are reached now are measured, and so needed with all their parts
}

// New returns a program without packages. Its files go to the file set; arch is the GOARCH that it is built for, which the sizes of types depend on.
func New(fset *token.FileSet, arch string) *Program {
	return &Program{Abroad: map[string][]types.Error{}, fset: fset, arch: arch, units: map[string]*Unit{}}
}

// A Unit is a package on its way: parsed, its reached declarations marked, checked.
type Unit struct {
	Package   *packages.Package
	Annotated bool // it has directives: its comments are read, and of its types and mistakes everything is kept; said before it is parsed

	// Of a parsed package:
	Files  []*ast.File // except the generator's own
	Names  []string    // of the files
	Broken map[string]scanner.ErrorList

	// Of an annotated package that was checked:
	Errors []types.Error
	Info   *types.Info

	program *Program
	parsed  bool
	says    bool // a file has directives, by its bytes

	decls   map[string][]declaration   // by name
	methods map[string][]declaration   // by name of the receiver's type, whatever the receiver calls it
	reached map[string]bool            // names, and whether as a whole
	full    map[*ast.TypeSpec]ast.Expr // the types of what was reached, with all their fields
	kept    map[ast.Node]bool          // specs and functions that are checked
	used    map[*ast.ImportSpec]bool

	checking bool
	types    *types.Package
}

// Unit is that of a package, the same one each time.
func (p *Program) Unit(pkg *packages.Package) *Unit {
	u, ok := p.units[pkg.ID]
	if !ok {
		u = &Unit{
			Package: pkg,
			Broken:  map[string]scanner.ErrorList{},
			program: p,
			decls:   map[string][]declaration{},
			methods: map[string][]declaration{},
			reached: map[string]bool{},
			full:    map[*ast.TypeSpec]ast.Expr{},
			kept:    map[ast.Node]bool{},
			used:    map[*ast.ImportSpec]bool{},
		}
		p.units[pkg.ID] = u
	}
	return u
}

// Parse reads all files of a unit, except the generator's own.
func (u *Unit) Parse() {
	if u.parsed {
		return
	}
	u.parsed = true
	flags := parser.SkipObjectResolution
	if u.Annotated {
		flags |= parser.ParseComments
	}
	for _, name := range u.Package.GoFiles {
		src, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if output.Is(name, src) {
			continue
		}
		u.says = u.says || bytes.Contains(src, []byte("//lockgen:"))
		if !u.Annotated || !directive.Mentioned(src) {
			src = withoutBodies(src)
		}
		file, err := parser.ParseFile(u.program.fset, name, src, flags)
		if file == nil {
			continue
		}
		if broken, ok := errors.AsType[scanner.ErrorList](err); ok {
			u.Broken[name] = broken
		}
		u.Files = append(u.Files, file)
		u.Names = append(u.Names, name)
	}
	u.index()
}

// Declared goes through the names that a file declares in package scope.
func Declared(file *ast.File) iter.Seq2[string, token.Pos] {
	return func(yield func(string, token.Pos) bool) {
		for _, d := range declarations(file) {
			if d.recv == "" && !yield(d.name, d.pos) {
				return
			}
		}
	}
}

// A declaration is one name in package scope, or a method.
type declaration struct {
	name string
	recv string // name of the receiver's type
	pos  token.Pos
	file *ast.File
	decl *ast.GenDecl // nil for functions
	node ast.Node     // *ast.TypeSpec, *ast.ValueSpec or *ast.FuncDecl
}

func (u *Unit) index() {
	var methods []declaration
	for _, file := range u.Files {
		for _, d := range declarations(file) {
			if d.recv != "" {
				methods = append(methods, d)
			} else {
				u.decls[d.name] = append(u.decls[d.name], d)
			}
		}
	}
	for _, d := range methods {
		name := u.unaliased(d.recv)
		u.methods[name] = append(u.methods[name], d)
	}
}

// unaliased is the name of the type that a receiver names, which can be by an alias of the type or of a pointer to it, and by one of that.
func (u *Unit) unaliased(name string) string {
	seen := map[string]bool{}
	for !seen[name] {
		seen[name] = true
		for _, d := range u.decls[name] {
			if spec, ok := d.node.(*ast.TypeSpec); ok && spec.Assign.IsValid() {
				name = receiver(spec.Type)
				break
			}
		}
	}
	return name
}

func declarations(file *ast.File) []declaration {
	var all []declaration
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			d := declaration{name: decl.Name.Name, pos: decl.Name.Pos(), file: file, node: decl}
			if decl.Recv != nil && len(decl.Recv.List) > 0 {
				d.recv = receiver(decl.Recv.List[0].Type)
			}
			all = append(all, d)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all = append(all, declaration{name: spec.Name.Name, pos: spec.Name.Pos(), file: file, decl: decl, node: spec})
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						all = append(all, declaration{name: name.Name, pos: name.Pos(), file: file, decl: decl, node: spec})
					}
				}
			}
		}
	}
	return all
}

// receiver names the type of a receiver.
func receiver(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "_"
		}
	}
}

// Imports maps the names under which a file knows other packages to their paths.
func (u *Unit) Imports(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		if name := u.importName(spec); name != "." && name != "_" {
			names[name] = importPath(spec)
		}
	}
	return names
}

// Dotted maps the names that dot imports bring into a file of the unit to the place of the import. It parses the packages, and checks nothing.
func (u *Unit) Dotted() map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, file := range u.Files {
		for _, spec := range file.Imports {
			dep := u.Package.Imports[importPath(spec)]
			if dep == nil || u.importName(spec) != "." {
				continue
			}
			from := u.program.Unit(dep)
			from.Parse()
			for name := range from.decls {
				if token.IsExported(name) {
					names[name] = spec.Name.Pos()
				}
			}
		}
	}
	return names
}

// importName is the name that an import has in its file.
func (u *Unit) importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if dep := u.Package.Imports[p]; dep != nil && dep.Name != "" {
		return dep.Name
	}
	return templates.ImportName(p)
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return p
}

// pruned returns the file with nothing but the declarations that were reached.
func (u *Unit) pruned(file *ast.File) *ast.File {
	out := &ast.File{Package: file.Package, Name: file.Name, FileStart: file.FileStart, FileEnd: file.FileEnd}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if u.kept[decl] {
				fn := *decl
				// Without any body a generic function is an error; bodies are not looked at.
				fn.Body = &ast.BlockStmt{Lbrace: decl.End(), Rbrace: decl.End()}
				out.Decls = append(out.Decls, &fn)
			}
		case *ast.GenDecl:
			g := *decl
			g.Specs = slices.DeleteFunc(slices.Clone(decl.Specs), func(s ast.Spec) bool {
				if spec, ok := s.(*ast.ImportSpec); ok {
					return !u.used[spec]
				}
				return !u.kept[s]
			})
			if len(g.Specs) > 0 {
				out.Decls = append(out.Decls, &g)
			}
		}
	}
	return out
}
