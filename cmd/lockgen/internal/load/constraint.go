package load

import (
	"go/ast"
	"go/build/constraint"
	"go/token"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// BuildLine is the //go:build line of the output of a file, or "". A file that imports C is built only with cgo, whether its own line says so or not.
func (f *File) BuildLine(fset *token.FileSet) string {
	x := written(fset, f.Syntax)
	if importsC(f.Syntax) {
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

func importsC(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"C"` })
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
// gofmt ends the line there. A //go:build line that does not parse was refused before.
func written(fset *token.FileSet, file *ast.File) constraint.Expr {
	if line := goBuild(file); line != "" {
		x, _ := constraint.Parse(line)
		return x
	}
	return plusBuild(fset, file)
}

// goBuild is the //go:build line of a file, or "".
func goBuild(file *ast.File) string {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, comment := range group.List {
			if constraint.IsGoBuild(comment.Text) {
				return comment.Text
			}
		}
	}
	return ""
}

// plusBuild returns what the // +build lines of a file ask for together, or nil. A line counts if an empty line parts it from the package clause and
// from a block comment. The go command skips a line that does not parse.
func plusBuild(fset *token.FileSet, file *ast.File) constraint.Expr {
	var all constraint.Expr
	for _, group := range file.Comments {
		block := slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "/*") })
		if block || fset.PositionFor(group.End(), false).Line+1 >= fset.PositionFor(file.Package, false).Line {
			break
		}
		for _, comment := range group.List {
			if !constraint.IsPlusBuild(comment.Text) {
				continue
			}
			switch x, err := constraint.Parse(comment.Text); {
			case err != nil:
			case all == nil:
				all = x
			default:
				all = &constraint.AndExpr{X: all, Y: x}
			}
		}
	}
	return all
}

// exclusion says what keeps a file out of the build, and how a run reads it.
func exclusion(fset *token.FileSet, name string, file *ast.File) (why, how string) {
	why, how = "its name", "-tags or GOOS"
	if line := goBuild(file); line != "" {
		why = line
	} else if x := plusBuild(fset, file); x != nil {
		why = "its +build lines, which say //go:build " + x.String()
	} else if importsC(file) && !output.Constrained(name) {
		why, how = `import "C"`, "CGO_ENABLED=1"
	}
	return why, how
}
