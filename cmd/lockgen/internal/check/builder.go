package check

import (
	"bytes"
	"go/ast"
	"go/types"
	"slices"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/templates"
	"github.com/lockgen/lockgen/templates/model"
)

// builder finds the annotated interface that a method is inherited from, whose output has builders of its keys already. There is none if the output
// can't name them.
func (c *checker) builder(iface *directive.Interface, m *method) *model.Builder {
	var obj *types.TypeName
	var args *types.TypeList
	switch t := m.effect.via.(type) {
	case *types.Named:
		obj, args = t.Obj(), t.TypeArgs()
	case *types.Alias:
		obj, args = t.Obj(), t.TypeArgs()
	}
	if obj == nil || obj == c.pkg.Info.Defs[iface.Spec.Name] || c.run.decl(obj).directive.Verb != iface.Directive.Verb || !c.canName(obj) {
		return nil
	}
	b := &model.Builder{Interface: obj, Keys: keysOf(obj.Name())}
	ok := true
	for t := range args.Types() {
		b.Args = append(b.Args, t)
		templates.Visit(t, func(t types.Type) {
			switch t := t.(type) {
			case *types.Named:
				ok = ok && c.canName(t.Obj())
			case *types.Alias:
				ok = ok && c.canName(t.Obj())
			}
		})
	}
	if !ok {
		return nil
	}
	return b
}

// canName reports whether the output may mention a name.
func (c *checker) canName(obj *types.TypeName) bool {
	return obj.Pkg() == nil || obj.Pkg() == c.pkg.Types || obj.Exported() && importable(obj.Pkg().Path(), c.folder())
}

// keysOf is the type that has the builders of an interface.
func keysOf(iface string) string { return iface + "Keys" }

// named is what a parameter is called in the output, which can have another name for it than the declaration that has the directive.
func (m *method) named(param string) string {
	if i := slices.Index(m.effect.names, param); i >= 0 && i < m.fn.Signature().Params().Len() {
		return m.names()[i]
	}
	return param
}

// oneMeaning checks that the parameters of a key are the same ones in all declarations that a directive above an interface can be read for.
func (c *checker) oneMeaning(m *method, d *directive.Directive, t *key.Template) bool {
	for _, part := range t.Parts {
		if part.Path == nil {
			continue
		}
		first := part.Path[0]
		from, to := d.Key.At(first.Off, first.End)
		if !c.meansOne(m, first.Text, func(format string, args ...any) { c.list.Add(from, to, format, args...) }) {
			return false
		}
	}
	return true
}

func (c *checker) meansOne(m *method, param string, note func(format string, args ...any)) bool {
	at := slices.Index(m.effect.names, param)
	for _, names := range m.effect.also {
		if other := slices.Index(names, param); other >= 0 && other != at {
			note("%s is parameter %d of %s in one of the interfaces that declare it and parameter %d in another: declare it in %s, with the directive above it",
				param, at+1, m.fn.Name(), other+1, m.effect.owner.name)
			return false
		}
	}
	return true
}

// function finds a function that makes keys in another package, whose types may lack it since it is not exported. Its
// parameters and results come from its declaration, as far as a caller of the builder needs them.
func (r *Run) function(d *decl, name string) *types.Func {
	for _, f := range r.filesOf(d, func(src []byte) bool { return bytes.Contains(src, []byte("func "+name+"(")) }) {
		for _, node := range f.syntax.Decls {
			fn, ok := node.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Name.Name != name || fn.Type.Results == nil {
				continue
			}
			var params, results []*types.Var
			for _, field := range fn.Type.Params.List {
				for _, name := range field.Names {
					params = append(params, types.NewParam(name.Pos(), d.pkg, name.Name, types.Typ[types.Invalid]))
				}
			}
			results = append(results, types.NewParam(fn.Pos(), d.pkg, "", types.Typ[types.String]))
			if fn.Type.Results.NumFields() > 1 {
				results = append(results, types.NewParam(fn.Pos(), d.pkg, "", types.Universe.Lookup("error").Type()))
			}
			sig := types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), types.NewTuple(results...), false)
			return types.NewFunc(fn.Pos(), d.pkg, name, sig)
		}
	}
	return nil
}
