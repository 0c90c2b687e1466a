package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// golist asks the go command, once.
func (l *loader) golist(patterns []string, tests bool) ([]*packages.Package, error) {
	cfg := &packages.Config{Mode: mode, Dir: l.cfg.Dir, Tests: tests, Env: l.environment()}
	if l.cfg.Tags != "" {
		cfg.BuildFlags = []string{"-tags=" + l.cfg.Tags}
	}
	pkgs, err := packages.Load(cfg, patterns...)
	if err != nil {
		if _, said, ok := strings.Cut(err.Error(), "stderr: "); ok {
			// The message of the go command, without its command line.
			return nil, errors.New(strings.TrimSpace(said))
		}
		return nil, err
	}
	var roots []*packages.Package
	for _, pkg := range pkgs {
		if pkg.Module != nil && !pkg.Module.Main {
			// Its files are somebody else's, most likely in the module cache.
			return nil, fmt.Errorf("%s: package of module %s, which is not the main module", pkg.PkgPath, pkg.Module.Path)
		}
		if info, err := os.Stat(pkg.Dir); err == nil && info.IsDir() {
			// Whatever else is wrong with it, such as that it has nothing but tests: its files can be read.
			roots = append(roots, pkg)
			continue
		}
		for _, e := range pkg.Errors {
			return nil, fmt.Errorf("%s: %s", pkg.PkgPath, e.Msg)
		}
	}
	return roots, nil
}

// tests asks for the packages of directories once more, with their tests.
func (l *loader) tests(dirs []string) ([]*packages.Package, error) {
	patterns := slices.Clone(dirs)
	for i, dir := range dirs {
		// The go command takes three dots for a pattern. It refuses one that begins above the module, and finds other packages too.
		if rel, err := filepath.Rel(l.cfg.Dir, dir); err == nil && strings.Contains(dir, "...") {
			patterns[i] = "./" + filepath.ToSlash(rel)
		}
	}
	pkgs, err := l.golist(patterns, true)
	return slices.DeleteFunc(pkgs, func(pkg *packages.Package) bool { return !slices.Contains(dirs, pkg.Dir) }), err
}

// environment is that of the go command, which is asked what the packages are built for. Where nothing has been built yet, that would first write an index of all packages for its
// later calls, which takes longer than to do without one.
func (l *loader) environment() []string {
	b := &l.result.Build
	cmd := exec.Command("go", "env", "GOCACHE", "GOOS", "GOARCH", "CGO_ENABLED", "GOFLAGS")
	cmd.Dir = l.cfg.Dir
	out, err := cmd.Output()
	if err != nil {
		b.BuildTags = Tags(l.cfg.Tags, "")
		return nil // that of this program; packages.Load will say what is wrong
	}
	said := append(strings.Split(strings.ReplaceAll(string(out), "\r", ""), "\n"), "", "", "", "", "")
	b.GOOS, b.GOARCH, b.CgoEnabled = said[1], said[2], said[3] == "1"
	b.BuildTags = Tags(l.cfg.Tags, said[4])
	if _, err := os.Stat(filepath.Join(said[0], "README")); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return append(os.Environ(), "GODEBUG=goindex=0,"+os.Getenv("GODEBUG"))
}

// Tags lists the build tags of a run: those of its flag -tags, or if that is empty those that the variable GOFLAGS says.
func Tags(flag, goflags string) []string {
	tags := flag
	for f := range strings.FieldsSeq(goflags) {
		if of, ok := strings.CutPrefix("-"+strings.TrimLeft(f, "-"), "-tags="); ok && flag == "" {
			tags = of
		}
	}
	return strings.FieldsFunc(tags, func(c rune) bool { return c == ',' || c == ' ' })
}

// matched returns an error for a pattern that names no package. The go command only warns of that, and a check of nothing would always succeed.
func (l *loader) matched(roots []*packages.Package) error {
	for _, pattern := range l.cfg.Patterns {
		found := roots
		start, _, wild := strings.Cut(pattern, "...")
		if wild && len(l.cfg.Patterns) > 1 && !slices.ContainsFunc(roots, l.below(strings.TrimSuffix(start, "/"))) {
			var err error
			if found, err = l.golist([]string{pattern}, false); err != nil {
				return err
			}
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: no packages", pattern)
		}
	}
	return nil
}

// own leaves out what is of the Go installation: nobody annotates that. A folder without Go files is an error, since it is most likely the top of a
// module.
func (l *loader) own(roots []*packages.Package) ([]*packages.Package, error) {
	installed := map[string]string{}
	var own []*packages.Package
	for _, pkg := range roots {
		if _, ok := fixed(pkg, installed); ok && pkg.Module == nil {
			continue
		}
		all, err := sources(pkg)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			dir := here(filepath.Join(diag.Relative(l.cfg.Dir, pkg.Dir), "x.go"))
			name, below := dir, dir+"/..."
			if dir == "." {
				name = "this folder"
			}
			return nil, fmt.Errorf("%s has no Go files; for all packages below it: lockgen %s", name, below)
		}
		own = append(own, pkg)
	}
	if len(own) == 0 {
		l.result.Notes = append(l.result.Notes, strings.Join(l.cfg.Patterns, " ")+": no Go files of this module, so there was nothing to do")
	}
	return own, nil
}

// below says of a package whether its path or its directory begins with start, as far as that can be told without the go command.
func (l *loader) below(start string) func(*packages.Package) bool {
	dir := filepath.Join(l.cfg.Dir, start)
	return func(pkg *packages.Package) bool {
		return strings.HasPrefix(pkg.PkgPath+"/", start+"/") || strings.HasPrefix(pkg.Dir+string(filepath.Separator), dir+string(filepath.Separator))
	}
}
