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
)

// fingerprint changes with everything that the run depends on: which packages there are and of which files, and what is in those that can change.
// Those of the module cache and of the Go installation can't, other than with their version. Files are the sums of those that were read already.
func fingerprint(roots []*packages.Package, files map[string][sha256.Size]byte) (string, error) {
	h := sha256.New()
	sums := maps.Clone(files)
	installed := map[string]string{}
	var pkgs []*packages.Package
	packages.Visit(roots, nil, func(p *packages.Package) { pkgs = append(pkgs, p) })
	slices.SortFunc(pkgs, func(a, b *packages.Package) int { return strings.Compare(a.ID, b.ID) })
	for _, p := range pkgs {
		fmt.Fprintf(h, "%q %q %q %q %q %q\n", p.ID, p.Name, p.Dir, p.GoFiles, p.IgnoredFiles, slices.Sorted(maps.Keys(p.Imports)))
		if version, ok := fixed(p, installed); ok {
			fmt.Fprintf(h, "%q\n", version)
			continue
		}
		for _, name := range p.GoFiles {
			if _, ok := sums[name]; ok {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			sums[name] = sha256.Sum256(src)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%q %x\n", name, sums[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
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
