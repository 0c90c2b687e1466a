package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// sums are those of what is in files, by their names.
type sums map[string][sha256.Size]byte

// fingerprint changes with everything that the run depends on: which packages there are and of which files, and what is in those that can change.
// Those of the module cache and of the Go installation can't, other than with their version. The salt is what else it depends on. Files are the sums of those that were read already.
func fingerprint(salt string, roots []*packages.Package, files sums) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", salt)
	all := maps.Clone(files)
	installed := map[string]string{}
	var pkgs []*packages.Package
	packages.Visit(roots, nil, func(p *packages.Package) { pkgs = append(pkgs, p) })
	slices.SortFunc(pkgs, func(a, b *packages.Package) int { return strings.Compare(a.ID, b.ID) })
	for _, p := range pkgs {
		fmt.Fprintf(h, "%q %q %q %q %q %q %q\n", p.ID, p.Name, p.Dir, module(p), p.GoFiles, p.IgnoredFiles, slices.Sorted(maps.Keys(p.Imports)))
		if version, ok := fixed(p, installed); ok {
			fmt.Fprintf(h, "%q\n", version)
			continue
		}
		for _, name := range p.GoFiles {
			if _, ok := all[name]; ok {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			all[name] = sha256.Sum256(src)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(h, "%q %x\n", name, all[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// prints are the fingerprints of packages, by their IDs: each changes with everything that the outputs of its package depend on. That is all that is in
// the Go files of its directory, and what the packages that it imports, directly or not, declare: of those the bodies of functions do not count, nor
// the outputs that they have themselves.
type prints struct {
	salt      string
	sums      sums                // of the files in the directories of the run
	inDir     map[string][]string // these files
	declared  map[string]string   // the declarations of a package, and all its imports, by its ID
	installed map[string]string   // versions of Go, by their directories
}

func newPrints(salt string, files sums) *prints {
	p := &prints{salt: salt, sums: files, inDir: map[string][]string{}, declared: map[string]string{}, installed: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p.inDir[filepath.Dir(name)] = append(p.inDir[filepath.Dir(name)], name)
	}
	return p
}

// of is the fingerprint of a package of the run, or empty if one of its files has just been removed.
func (p *prints) of(pkg *packages.Package) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", p.salt, pkg.Dir, pkg.IgnoredFiles)
	for _, name := range p.inDir[pkg.Dir] {
		fmt.Fprintf(h, "%q %x\n", name, p.sums[name])
	}
	declared, err := p.declares(pkg)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum([]byte(declared)))
}

// declares is the fingerprint of what a package declares, with all that it imports.
func (p *prints) declares(pkg *packages.Package) (string, error) {
	if known, ok := p.declared[pkg.ID]; ok {
		return known, nil
	}
	p.declared[pkg.ID] = "" // the go command leaves out one import of a circle
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", pkg.ID, pkg.Name, pkg.Dir, module(pkg))
	if version, ok := fixed(pkg, p.installed); ok {
		fmt.Fprintf(h, "%q %q\n", version, pkg.GoFiles)
	} else {
		for _, name := range pkg.GoFiles {
			src, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			if !output.Is(name, src) {
				fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(partial.Outline(src)))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(pkg.Imports)) {
		declared, err := p.declares(pkg.Imports[path])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s\n", path, declared)
	}
	p.declared[pkg.ID] = hex.EncodeToString(h.Sum(nil))
	return p.declared[pkg.ID], nil
}

// module is the path of the module of a package: a method keeps the lock that is declared with it only inside of one module.
func module(p *packages.Package) string {
	if p.Module == nil {
		return ""
	}
	return p.Module.Path
}

// fixed is the version of a package whose files don't change. Installed are the versions of Go that were seen.
func fixed(p *packages.Package, installed map[string]string) (version string, ok bool) {
	if p.Module == nil {
		root, ok := strings.CutSuffix(filepath.ToSlash(p.Dir), "/src/"+p.PkgPath)
		if !ok {
			return "", false
		}
		if installed[root] == "" {
			v, err := os.ReadFile(filepath.Join(root, "VERSION"))
			if err != nil {
				return "", false
			}
			installed[root] = string(v)
		}
		return installed[root], true
	}
	m := p.Module
	if m.Replace != nil {
		m = m.Replace
	}
	// A directory with its version in its name is one of the module cache, and not a vendored one.
	return m.Version, m.Version != "" && strings.Contains(filepath.ToSlash(p.Dir), "@"+m.Version)
}
