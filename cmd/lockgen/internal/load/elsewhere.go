package load

import (
	"go/token"
	"slices"
	"sync"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
)

// named lists what the directives of a package name.
func (p *Package) named() []string {
	var names []string
	for _, shared := range p.Shared {
		for _, iface := range shared.Directives.Interfaces {
			names = append(names, iface.Spec.Name.Name)
		}
	}
	for _, file := range p.Files {
		for _, iface := range file.Directives.Interfaces {
			names = append(names, iface.Spec.Name.Name)
		}
		names = slices.AppendSeq(names, file.Directives.Functions())
	}
	return names
}

// elsewhere has the same packages, with what their directives name, for an architecture with words of another size. It reads them at the first call.
func (l *loader) elsewhere(named map[*packages.Package][]string) func() (*partial.Program, string) {
	arch := OtherWords(l.result.Build.GOARCH)[0]
	return sync.OnceValues(func() (*partial.Program, string) {
		program := partial.New(token.NewFileSet(), arch)
		for pkg := range named {
			program.Unit(pkg).Annotated = true
		}
		for pkg, names := range named {
			for _, name := range names {
				program.Unit(pkg).Reach(name)
			}
		}
		return program, arch
	})
}

// OtherWords lists the architectures whose words differ in size from those of one.
func OtherWords(arch string) []string {
	wide, narrow := []string{"amd64", "arm64", "loong64", "mips64", "mips64le", "ppc64", "ppc64le", "riscv64", "s390x", "wasm"}, []string{"386", "arm", "mips", "mipsle"}
	if slices.Contains(narrow, arch) {
		return wide
	}
	return narrow
}
