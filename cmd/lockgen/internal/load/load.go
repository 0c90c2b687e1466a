// Package load finds the annotated files of the packages that a run is about, and the types that they mention.
//
// The go command is asked once for the package graph, nothing is compiled and no export data is read: a package is read although it does not
// compile because what it lacks is the output of this run, and a cold build cache costs nothing. Files that cannot hold a directive are told by
// their bytes. Of all others and of what they import package partial checks what is needed.
package load

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// A Config says what to load.
type Config struct {
	Dir      string   // where the go command runs
	Tags     string   // build tags, as for go build
	Patterns []string // as for go list

	// Known reports whether this input is known to be up to date already, by its fingerprint; then nothing is read but
	// that. It can be nil.
	Known func(fingerprint string) bool
}

// A Result is everything that was found.
type Result struct {
	Packages []*Package    // those with directives, by path
	Outputs  []string      // generated files on disk whose sources were read, or are gone
	Notes    []string      // remarks for the user that stop nothing
	Known    bool          // there is nothing to do
	Build    build.Context // the system, the tags and the like that the packages are built for

	roots []*packages.Package
	salt  string // the other inputs of the outputs
	print string // the fingerprint; empty if nobody asked for it
	sums  sums   // of the files that it is of
}

// Saw reports whether the fingerprint is of a file with this content, or of none if the content is
// nil.
func (r *Result) Saw(name string, content []byte) bool {
	sum, ok := r.sums[name]
	return ok == (content != nil) && (!ok || sum == sha256.Sum256(content))
}

// Unchanged reports whether all files are still what the fingerprints are of. Somebody else may have written some
// since, such as another run: then the fingerprints say nothing about what this run has found.
func (r *Result) Unchanged() bool {
	now := sums{}
	for _, pkg := range r.roots {
		all, err := sources(pkg)
		if err != nil {
			return false
		}
		for _, file := range all {
			now[file.name] = sha256.Sum256(file.text)
		}
	}
	again, err := fingerprint(r.salt, r.roots, now)
	return err == nil && again == r.print
}

// Linked reports whether a package of the run, or a program that it is, has both packages in it.
func (r *Result) Linked(a, b string) bool {
	memo := map[string][2]bool{}
	var has func(pkg *packages.Package) [2]bool
	has = func(pkg *packages.Package) [2]bool {
		if found, ok := memo[pkg.ID]; ok {
			return found
		}
		found := [2]bool{pkg.PkgPath == a, pkg.PkgPath == b}
		memo[pkg.ID] = found
		for _, dep := range pkg.Imports {
			below := has(dep)
			found[0], found[1] = found[0] || below[0], found[1] || below[1]
		}
		memo[pkg.ID] = found
		return found
	}
	return slices.ContainsFunc(r.roots, func(pkg *packages.Package) bool { return has(pkg) == [2]bool{true, true} })
}

// A Package is one with directives.
type Package struct {
	Path, Name string
	Print      string // its fingerprint, or empty if nobody asked for it
	Types      *types.Package
	Info       *types.Info
	Errors     []types.Error            // of its declarations; those that no directive reaches don't matter
	Abroad     map[string][]types.Error // the same of packages without directives, by their paths
	Declared   map[string]token.Pos     // everything in package scope, generated files left out
	Imported   map[string]token.Pos     // the names that files give to packages, which nothing in package scope can have
	Dotted     map[string]token.Pos     // the names that dot imports bring into files, of which the same holds; into tests only those from packages of the module
	Files      []*File                  // with directives, by name
	Shared     []*File                  // that another package's outputs are made from: with tests, those without
	Excluded   []*File                  // with directives, that are not loaded: those for other systems and tags, and tests
	Syntax     []*ast.File              // all
	Others     bool                     // its directory has more files that may have directives: of its tests, or excluded from this run

	// Elsewhere has the types that the package has with words of another size, and names an architecture with such words. It is nil if that is not known.
	Elsewhere func() (pkg *types.Package, arch string)
}

// A File is a source file with directives.
type File struct {
	Name       string
	Syntax     *ast.File
	Directives *directive.File
	Imports    map[string]string // name in the file to path; "." and "_" left out
	Wrong      bool              // some of its directives are not in Directives, for the mistakes in them
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedForTest

// Load finds and checks. Mistakes in the input are noted in list; an error is trouble with the run itself.
func Load(cfg Config, list *diag.List) (*Result, error) {
	for _, pattern := range cfg.Patterns {
		if cfg.isFile(pattern) {
			// The go command would take the named files for a whole package, and the outputs of all others would look stale.
			return nil, fmt.Errorf("%s: a file; name its package instead, here lockgen %s", pattern, here(pattern))
		}
	}
	l := &loader{cfg: cfg, list: list, result: &Result{Build: build.Default}, sums: sums{}}
	roots, err := l.golist(cfg.Patterns, false)
	if err != nil {
		return nil, err
	}
	if err := l.matched(roots); err != nil {
		return nil, err
	}
	if roots, err = l.own(roots); err != nil {
		return nil, err
	}
	hits := map[string]bool{}
	var withTests []string
	for _, pkg := range roots {
		inTests, err := l.scan(pkg, hits)
		if err != nil {
			return nil, err
		}
		if inTests {
			withTests = append(withTests, pkg.Dir)
		}
	}
	if len(withTests) > 0 {
		// Asking for tests doubles the package graph, so it is done only where a test has a directive.
		tests, err := l.tests(withTests)
		if err != nil {
			return nil, err
		}
		roots = append(roots, tests...)
	}
	l.result.roots = roots
	if cfg.Known != nil {
		l.result.salt = strings.Join([]string{cfg.Tags, l.result.Build.GOOS, l.result.Build.GOARCH}, " ")
		print, err := fingerprint(l.result.salt, roots, l.sums)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		l.result.print, l.result.sums = print, l.sums
		if l.result.Known = print != "" && cfg.Known(print); l.result.Known {
			return l.result, nil
		}
	}
	l.annotate(partial.New(list.Fset(), l.result.Build.GOARCH), roots, hits)
	slices.SortStableFunc(l.result.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(l.result.Outputs)
	l.result.Outputs = slices.Compact(l.result.Outputs)
	return l.result, nil
}

// isFile reports whether the go command takes a pattern for the name of a file. The directory or the path of a package can end in .go, too.
func (cfg Config) isFile(pattern string) bool {
	name := pattern
	if !filepath.IsAbs(name) {
		name = filepath.Join(cfg.Dir, name)
	}
	info, err := os.Stat(name)
	return strings.HasSuffix(pattern, ".go") && err == nil && !info.IsDir()
}

// here is the pattern for the package that a file is of.
func here(file string) string {
	dir := filepath.ToSlash(filepath.Dir(file))
	if dir == "." || filepath.IsAbs(file) || strings.HasPrefix(dir, "../") || dir == ".." {
		return dir
	}
	return "./" + strings.TrimPrefix(dir, "./")
}

type loader struct {
	cfg    Config
	list   *diag.List
	result *Result
	sums   sums // of the files in the directories of the run
}

// scan reads the files of a package's directory and remembers those that may have directives. It reports whether a test
// has.
func (l *loader) scan(pkg *packages.Package, hits map[string]bool) (inTests bool, err error) {
	all, err := sources(pkg)
	if err != nil {
		return false, err
	}
	for _, file := range all {
		name, src := file.name, file.text
		if l.cfg.Known != nil {
			l.sums[name] = sha256.Sum256(src)
		}
		if output.Is(name, src) {
			l.ours(name, pkg)
			continue
		}
		if !directive.Mentioned(src) {
			continue
		}
		hits[name] = true
		switch {
		case l.unbuildable(name, src):
		case slices.Contains(pkg.IgnoredFiles, name):
			l.excluded(name, src)
		case strings.HasSuffix(name, "_test.go"):
			inTests = true
		}
	}
	return inTests, nil
}

// unbuildable notes what keeps the go command from seeing when a file is built. The go command leaves such a file out, and so the run would remove its output.
func (l *loader) unbuildable(name string, src []byte) bool {
	dir, base := filepath.Split(name)
	_, err := l.result.Build.MatchFile(dir, base)
	if err == nil {
		return false
	}
	_, message, _ := strings.Cut(err.Error(), ": ")
	at, width := token.Position{Filename: name, Line: 1, Column: 1}, 1
	lines, n := 0, 0
	for line := range strings.Lines(string(src)) {
		n++
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "package ") {
			break
		}
		if !constraint.IsGoBuild(text) {
			continue
		}
		lines++
		at.Line, at.Column, width = n, strings.Index(line, text)+1, len(text)
		if _, err := constraint.Parse(text); err != nil {
			message = fmt.Sprintf("the build constraint does not parse: %v; its operators are &&, || and !", err)
		}
		if lines > 1 {
			message = "this is a second build constraint, and a file has one; join them with &&"
			break
		}
	}
	l.list.AddAt(at, width, "%s", message)
	return true
}

// A source is a Go file with what is in it.
type source struct {
	name string
	text []byte
}

// sources reads the Go files in the directory of a package, in the order of their names.
func sources(pkg *packages.Package) ([]source, error) {
	entries, err := os.ReadDir(pkg.Dir)
	if err != nil {
		return nil, err
	}
	var all []source
	for _, entry := range entries {
		name := filepath.Join(pkg.Dir, entry.Name())
		if !strings.HasSuffix(name, ".go") || !Regular(name) {
			continue
		}
		text, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another run has just removed it
		case err != nil:
			return nil, err
		default:
			all = append(all, source{name, text})
		}
	}
	return all, nil
}

// Regular reports whether a file can have source: a link to a directory such as nats.go does not, and to read a named pipe would take for ever.
func Regular(name string) bool {
	info, err := os.Stat(name)
	return err != nil || info.Mode().IsRegular() // to read it says what is wrong
}

// ours notes an output whose source the run decides about: it was read, or it is gone.
func (l *loader) ours(name string, pkg *packages.Package) {
	source, _ := output.Source(name)
	if !slices.Contains(pkg.IgnoredFiles, source) {
		l.result.Outputs = append(l.result.Outputs, name)
	}
}

// excluded notes a file whose directives this run can't see.
func (l *loader) excluded(name string, src []byte) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || !directive.In(fset, file) {
		return
	}
	why, how := exclusion(fset, name, file)
	l.result.Notes = append(l.result.Notes,
		fmt.Sprintf("%s: has directives, but is excluded by %s; run with %s to read it", diag.Relative(l.cfg.Dir, name), why, how))
}

// annotate parses the packages with directives, collects these, and finds the types of what they name.
func (l *loader) annotate(program *partial.Program, roots []*packages.Package, hits map[string]bool) {
	seen := map[string]bool{}
	var units []*partial.Unit // of the packages
	for _, pkg := range roots {
		var names []string
		for _, name := range pkg.GoFiles {
			if hits[name] && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		u := program.Unit(pkg)
		u.Annotated = true
		p := &Package{Path: pkg.PkgPath, Name: pkg.Name}
		for name := range hits {
			p.Others = p.Others || filepath.Dir(name) == pkg.Dir && !slices.Contains(names, name)
		}
		u.Parse()
		for _, name := range u.Names {
			if broken := u.Broken[name]; broken != nil && !hits[name] {
				l.result.Notes = append(l.result.Notes, fmt.Sprintf("%s:%d: %s", diag.Relative(l.cfg.Dir, name), broken[0].Pos.Line, oneLine(broken[0].Msg)))
			}
		}
		slices.Sort(names)
		for _, name := range names {
			l.collect(p, u, name)
		}
		if len(p.Files) == 0 {
			u.Annotated = false
			continue
		}
		for i, name := range u.Names {
			if hits[name] && !slices.Contains(names, name) {
				p.Shared = append(p.Shared, &File{Name: name, Syntax: u.Files[i], Directives: directive.Collect(diag.New(l.list.Fset()), u.Files[i])})
			}
		}
		dots := p.scope(l.list.Fset(), pkg.Dir, u.Files, u.Imports, u.Names, pkg.IgnoredFiles)
		p.Syntax, p.Dotted = u.Files, u.Dotted()
		l.dotted(p, pkg.Module, dots)
		units = append(units, u)
		l.result.Packages = append(l.result.Packages, p)
	}
	named := map[*packages.Package][]string{}
	for i, u := range units {
		named[u.Package] = l.result.Packages[i].named()
		for _, name := range named[u.Package] {
			u.Reach(name)
		}
	}
	elsewhere := l.elsewhere(named)
	fingerprints := newPrints(l.result.salt, l.sums)
	for i, u := range units {
		p := l.result.Packages[i]
		p.Types, p.Abroad = u.Types(), program.Abroad
		p.Info, p.Errors = u.Info, u.Errors
		pkg := u.Package
		p.Elsewhere = func() (*types.Package, string) {
			program, arch := elsewhere()
			return program.Unit(pkg).Types(), arch
		}
		if l.result.print != "" {
			p.Print = fingerprints.of(u.Package)
		}
	}
}

// collect reads the directives of one file of a package.
func (l *loader) collect(p *Package, u *partial.Unit, name string) {
	i := slices.Index(u.Names, name)
	if i < 0 {
		return
	}
	if broken := u.Broken[name]; broken != nil {
		// The directives of such a file are unreliable, unlike its declarations that others
		// mention.
		for _, e := range broken {
			l.list.AddAt(e.Pos, 1, "%s", oneLine(e.Msg))
		}
		return
	}
	if name := u.Files[i].Name; name.Name != p.Name && name.Name != "_" {
		l.list.Add(name.Pos(), name.End(), "this directory is package %s, by its first file; one directory has one package", p.Name)
		return
	}
	before := l.list.Len()
	d := directive.Collect(l.list, u.Files[i])
	if d.None() {
		return
	}
	p.Files = append(p.Files, &File{Name: name, Syntax: u.Files[i], Directives: d, Imports: u.Imports(u.Files[i]), Wrong: l.list.Len() > before})
}

// oneLine is the first line of a message of the parser, which has all of a literal in it.
func oneLine(message string) string {
	first, _, more := strings.Cut(message, "\n")
	if more {
		first += "..."
	}
	return first
}
