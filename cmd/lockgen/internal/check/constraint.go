package check

import (
	"go/ast"
	"go/build/constraint"
	"slices"
)

// buildLine is the //go:build line of the output of a file, or "". A file that imports C is built only with cgo, whether its own line says so or not.
func buildLine(file *ast.File) string {
	x := written(file)
	if slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"C"` }) {
		cgo := &constraint.TagExpr{Tag: "cgo"}
		switch {
		case x == nil:
			x = cgo
		case !needs(x, cgo.Tag):
			x = &constraint.AndExpr{X: x, Y: cgo}
		}
	}
	if x == nil {
		return ""
	}
	return "//go:build " + x.String()
}

// needs reports whether an expression asks for a tag.
func needs(x constraint.Expr, tag string) bool {
	switch x := x.(type) {
	case *constraint.TagExpr:
		return x.Tag == tag
	case *constraint.AndExpr:
		return needs(x.X, tag) || needs(x.Y, tag)
	}
	return false
}

// written returns the build constraint of a file, or nil. The output does not repeat its text: the go command takes a form feed for a space, and
// gofmt ends the line there. Package load has refused a constraint that does not parse.
func written(file *ast.File) constraint.Expr {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, comment := range group.List {
			if constraint.IsGoBuild(comment.Text) {
				x, _ := constraint.Parse(comment.Text)
				return x
			}
		}
	}
	return nil
}
