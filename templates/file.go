package templates

import (
	"cmp"
	"go/types"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// The packages that generated code calls: what its users know, and what is there for generated code.
const (
	runtimePath = "github.com/lockgen/lockgen/runtime"
	genPath     = runtimePath + "/gen"
)

// file is one file while it is written.
type file struct {
	*jen.File
	model *model.File
	names *Names // aliases of imports, and names that the output declares in package scope
}

// newFile decides under which names the output knows other packages, before anything is written: jennifer would take the first name that comes,
// and knows nothing of the package's own declarations, parameters and locals.
func newFile(m *model.File) *file {
	f := &file{File: jen.NewFilePathName(m.Path, m.Name), model: m, names: &Names{}}
	f.NoFormat = true
	avoid := &Names{}
	avoid.Reserve(m.Declared...)
	avoid.Reserve(types.Universe.Names()...)
	avoid.Reserve(f.generated()...)
	pkgs := map[string]string{"context": "context", "errors": "errors", "time": "time"}
	for _, method := range f.methods() {
		for _, p := range slices.Concat(method.Params, method.Results) {
			avoid.Reserve(p.Name)
			packagesOf(p.Type, pkgs, avoid)
		}
		if method.Lock == nil || method.Lock.Builder == nil {
			continue
		}
		b := method.Lock.Builder
		pkgs[b.Interface.Pkg().Path()] = b.Interface.Pkg().Name()
		avoid.Reserve(b.Keys)
		for _, arg := range b.Args {
			packagesOf(arg, pkgs, avoid)
		}
	}
	for _, tp := range f.typeParams() {
		avoid.Reserve(tp.Obj().Name())
		packagesOf(tp.Constraint(), pkgs, avoid)
	}
	pkgs[runtimePath], pkgs[genPath] = "lockrt", "gen"
	paths := make([]string, 0, len(pkgs))
	for path := range pkgs {
		if path != m.Path {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	// The runtime has the name that all its users know it by; the others follow in the order of their paths, and last what no user names.
	slices.SortStableFunc(paths, func(a, b string) int {
		return cmp.Or(boolOrder(a == runtimePath, b == runtimePath), boolOrder(b == genPath, a == genPath))
	})
	for _, path := range paths {
		f.alias(avoid, path, pkgs[path])
	}
	f.names.Reserve(f.generated()...)
	return f
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// alias settles the name of one import.
func (f *file) alias(avoid *Names, path, name string) {
	base := name
	if own := f.model.Aliases[path]; own != "" && path != runtimePath {
		base = own
	}
	for jen.IsReservedWord(base) {
		// jennifer would give these a number of its own.
		base += "pkg"
	}
	alias := avoid.Pick(base)
	f.names.Reserve(alias)
	if alias == name && alias == ImportName(path) && path != runtimePath {
		f.ImportName(path, alias)
	} else {
		f.ImportAlias(path, alias)
	}
}

// methods lists all methods of the file, those of wrapped results too.
func (f *file) methods() []*model.Method {
	var all []*model.Method
	for _, s := range f.model.Services {
		all = append(all, s.Methods...)
		for _, m := range s.Methods {
			if m.Lock != nil && m.Lock.Stream != nil {
				all = append(all, m.Lock.Stream.Methods...)
			}
		}
	}
	for _, l := range f.model.Locks {
		all = append(all, l.Methods...)
	}
	return all
}

func (f *file) typeParams() []*types.TypeParam {
	var all []*types.TypeParam
	for _, s := range f.model.Services {
		all = append(all, s.TypeParams...)
	}
	for _, l := range f.model.Locks {
		all = append(all, l.TypeParams...)
	}
	return all
}

// generated lists the names that the file declares in package scope.
func (f *file) generated() []string {
	var names []string
	for _, s := range f.model.Services {
		names = append(names, s.Wrapper, s.Constructor, s.Keys)
	}
	for _, l := range f.model.Locks {
		names = append(names, l.Type, l.Constructor, l.Keys)
	}
	for _, m := range f.methods() {
		if m.Lock != nil {
			names = append(names, m.Lock.SpecVar)
			if m.Lock.Stream != nil && m.Lock.Stream.Closer != "" {
				names = append(names, m.Lock.Stream.Closer)
			}
		}
	}
	return names
}

// lockrt returns a name of the runtime.
func lockrt(name string) *jen.Statement { return jen.Qual(runtimePath, name) }

// gen returns a name of what the runtime has for generated code.
func gen(name string) *jen.Statement { return jen.Qual(genPath, name) }

// methodDoc writes the doc comment of a method, as a block if the method's own is one. A line of a block never begins with two slashes: go generate would
// run a command that the comment only shows.
func (f *file) methodDoc(m *model.Method, lines []string) {
	if !m.Block {
		f.doc(lines...)
		return
	}
	f.Line()
	// Nothing but an empty line parts declarations from each other, see [Layouts].
	text := slices.CompactFunc(formatDoc(lines), func(a, b string) bool { return a == "" && b == "" })
	for i, line := range text {
		if strings.HasPrefix(line, "//") {
			text[i] = "\t" + line
		}
	}
	f.Comment("/*\n" + strings.Join(text, "\n") + "\n*/")
}

// doc writes a doc comment. A tab at the start of a line makes it code.
func (f *file) doc(lines ...string) {
	f.Line()
	for _, line := range formatDoc(lines) {
		switch {
		case line == "":
			f.Comment("//")
		case strings.HasPrefix(line, "\t"):
			f.Comment("//" + line)
		default:
			f.Comment("// " + line)
		}
	}
}
