package load

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"slices"
	"strconv"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/templates"
)

// A unit is a package on its way: parsed, its reached declarations marked, checked.
type unit struct {
	pkg    *packages.Package
	root   *Package // for a package with directives
	parsed bool
	says   bool // a file has directives, by its bytes
	files  []*ast.File
	names  []string // of the files
	broken map[string]scanner.ErrorList

	decls   map[string][]declaration   // by name
	methods map[string][]declaration   // by name of the receiver's type, whatever the receiver calls it
	reached map[string]bool            // names, and whether as a whole
	full    map[*ast.TypeSpec]ast.Expr // the types of what was reached, with all their fields
	kept    map[ast.Node]bool          // specs and functions that are checked
	used    map[*ast.ImportSpec]bool

	checking bool
	types    *types.Package
}

func (l *loader) unit(pkg *packages.Package) *unit {
	u, ok := l.units[pkg.ID]
	if !ok {
		u = &unit{
			pkg:     pkg,
			broken:  map[string]scanner.ErrorList{},
			decls:   map[string][]declaration{},
			methods: map[string][]declaration{},
			reached: map[string]bool{},
			full:    map[*ast.TypeSpec]ast.Expr{},
			kept:    map[ast.Node]bool{},
			used:    map[*ast.ImportSpec]bool{},
		}
		l.units[pkg.ID] = u
	}
	return u
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

func (u *unit) index() {
	var methods []declaration
	for _, file := range u.files {
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
func (u *unit) unaliased(name string) string {
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

// imports maps the names under which a file knows other packages to their paths.
func (u *unit) imports(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		if name := u.importName(spec); name != "." && name != "_" {
			names[name] = importPath(spec)
		}
	}
	return names
}

// importName is the name that an import has in its file.
func (u *unit) importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if dep := u.pkg.Imports[p]; dep != nil && dep.Name != "" {
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
func (u *unit) pruned(file *ast.File) *ast.File {
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
