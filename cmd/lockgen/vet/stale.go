package vet

import (
	"go/ast"
	"go/build"
	"go/token"
	"os"
	"path/filepath"
	"reflect"

	"golang.org/x/tools/go/analysis"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/templates"
)

// Stale finds outputs that are missing, that are not what the directives give now, or whose directives are gone, and
// mistakes in directives. It generates in memory and compares, so the generator of this version must have written them.
// Packages with cgo are left to lockgen -check, and so is what embeds an interface that another package declares by the
// name of a third one's, if the compiler's output does not show that.
//
// A driver of analyzers does not say which build tags it has, and the defaults of another package can stand in a file that needs one. Stale takes the tags
// from its flag tags, which lockgen vet -tags sets, and without the flag from GOFLAGS: go vet -vettool=$(which lockgen) -tags=a -stale.tags=a ./...
var Stale = &analysis.Analyzer{
	Name:     "stale",
	Doc:      "find generated locks that are not up to date, and mistakes in directives\n\nRun lockgen ./... to write them again.",
	URL:      docs + "#Stale",
	Requires: []*analysis.Analyzer{table},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, file := range pass.Files {
			if directory(pass, file, true) != directory(pass, file, false) {
				return nil, nil // the output of cgo differs from the source of its author
			}
		}
		s := &stale{pass: pass, found: pass.ResultOf[table].(*found), made: map[string]bool{}}
		return nil, s.run()
	},
}

var tags string

func init() {
	Stale.Flags.StringVar(&tags, "tags", "", "build tags of the packages, as for go vet; without them those in GOFLAGS")
}

// table is what the generator finds in a package, for the analyzers.
var table = &analysis.Analyzer{
	Name:       "lockgen",
	Doc:        "find what each method of an annotated interface locks",
	ResultType: reflect.TypeFor[*found](),
	Run: func(pass *analysis.Pass) (any, error) {
		f := &found{list: diag.New(pass.Fset)}
		f.pkgs = load.Checked(f.list, pass.Pkg, pass.TypesInfo, pass.Files, pass.IgnoredFiles)
		context := build.Default
		context.BuildTags = load.Tags(tags, os.Getenv("GOFLAGS"))
		for _, pkg := range f.pkgs {
			f.outputs = append(f.outputs, check.Package(f.list, pkg, context)...)
		}
		return f, nil
	},
}

type found struct {
	list    *diag.List
	pkgs    []*load.Package
	outputs []check.Output
}

func directory(pass *analysis.Pass, file *ast.File, adjusted bool) string {
	return filepath.Dir(pass.Fset.PositionFor(file.Package, adjusted).Filename)
}

type stale struct {
	*found
	pass *analysis.Pass
	made map[string]bool
}

func (s *stale) run() error {
	pass := s.pass
	if s.list.Len() > 0 {
		for _, d := range s.list.Sorted() {
			from := load.Pos(pass.Fset, d.Pos)
			pass.Report(analysis.Diagnostic{Pos: from, End: from + token.Pos(d.Width), Message: d.Message})
		}
		return nil
	}
	for _, out := range s.outputs {
		if out.Unsure {
			s.made[output.Name(out.Source)] = true
			continue
		}
		src, err := templates.Render(out.Model)
		if err != nil {
			return err
		}
		s.compare(out.Source, src)
	}
	s.orphans()
	return nil
}

// compare looks at the file that should be there.
func (s *stale) compare(source string, want []byte) {
	name := output.Name(source)
	s.made[name] = true
	at := token.NoPos
	for _, pkg := range s.pkgs {
		for _, f := range pkg.Files {
			if f.Name == source {
				at = f.Directives.Interfaces[0].Spec.Name.Pos()
			}
		}
	}
	switch got, err := s.pass.ReadFile(name); {
	case err != nil:
		s.pass.Reportf(at, "%s is missing: run lockgen", filepath.Base(name))
	case !output.Same(got, want):
		s.pass.Reportf(at, "%s is not what the directives of this file give: run lockgen", filepath.Base(name))
	}
}

// orphans reports outputs that nothing gives any more.
func (s *stale) orphans() {
	for _, file := range s.pass.Files {
		name := s.pass.Fset.PositionFor(file.Package, false).Filename
		src, err := s.pass.ReadFile(name)
		if err == nil && output.Is(name, src) && !s.made[name] {
			s.pass.Reportf(file.Package, "%s comes from directives that are gone: run lockgen", filepath.Base(name))
		}
	}
}
