package check

import (
	"go/ast"
	"go/build/constraint"
	"slices"
	"strings"
)

// buildLine is the //go:build line of the output of a file, or "". A file that imports C is built only with cgo, whether its own line says so or not.
func buildLine(file *ast.File) string {
	line := written(file)
	if !slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"C"` }) {
		return line
	}
	cgo := &constraint.TagExpr{Tag: "cgo"}
	x, err := constraint.Parse(line)
	switch {
	case err != nil:
		return "//go:build " + cgo.String()
	case needs(x, cgo.Tag):
		return line
	}
	return "//go:build " + (&constraint.AndExpr{X: x, Y: cgo}).String()
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

// written is the //go:build line of a file, or "".
func written(file *ast.File) string {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, comment := range group.List {
			if line := strings.TrimRight(comment.Text, "\r"); constraint.IsGoBuild(line) {
				return line
			}
		}
	}
	return ""
}
