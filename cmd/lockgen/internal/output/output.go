// Package output knows which files are the generator's: their names and their first line.
package output

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/templates"
)

// Name returns the name of the file that is generated from source. A suffix with a meaning for the go command stays at
// the end:
//
//	orders.go            orders_lockgen.go
//	orders_linux.go      orders_lockgen_linux.go
//	orders_test.go       orders_lockgen_test.go
//	orders_linux_test.go orders_lockgen_linux_test.go
func Name(source string) string {
	dir, base := filepath.Split(source)
	stem, suffix := split(strings.TrimSuffix(base, ".go"))
	return dir + stem + marker + suffix + ".go"
}

// Source is the inverse of Name; ok is false if name is not the name of an output.
func Source(name string) (source string, ok bool) {
	dir, base := filepath.Split(name)
	stem, suffix := split(strings.TrimSuffix(base, ".go"))
	stem, ok = strings.CutSuffix(stem, marker)
	if !ok || stem == "" || !strings.HasSuffix(base, ".go") {
		return "", false
	}
	return dir + stem + suffix + ".go", true
}

// Constrained reports whether the go command builds a file only for some systems or architectures, by its name.
func Constrained(name string) bool {
	_, suffix := split(strings.TrimSuffix(filepath.Base(name), ".go"))
	return suffix != "" && suffix != "_test"
}

const marker = "_lockgen"

// split takes _test and what names an operating system or an architecture off the end of a file name.
func split(base string) (stem, suffix string) {
	parts := strings.Split(base, "_")
	// The go command never takes the first part for a suffix.
	end := len(parts)
	if end > 1 && parts[end-1] == "test" {
		end--
	}
	switch {
	case end > 2 && slices.Contains(systems, parts[end-2]) && slices.Contains(architectures, parts[end-1]):
		end -= 2
	case end > 1 && (slices.Contains(systems, parts[end-1]) || slices.Contains(architectures, parts[end-1])):
		end--
	}
	stem = strings.Join(parts[:end], "_")
	return stem, base[len(stem):]
}

// Is reports whether a file is an output: by its name, and because the generator wrote what is in it. An empty file is one whose content a loss of power took.
func Is(name string, src []byte) bool {
	_, ok := Source(name)
	return ok && (len(src) == 0 || Ours(src))
}

// Ours reports whether src was written by the generator, even if it was damaged since: its first line may have been
// pushed down by the markers of a merge conflict, or an editor may have put a byte order mark in front of it.
func Ours(src []byte) bool {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	for range 10 {
		line, rest, found := bytes.Cut(src, []byte("\n"))
		if string(bytes.TrimRight(line, "\r")) == templates.Header {
			return true
		}
		if !found {
			return false
		}
		src = rest
	}
	return false
}

// Same reports whether two files are the same, whatever their line ends: git may have made those of a checkout CRLF.
func Same(a, b []byte) bool {
	return bytes.Equal(Unix(a), Unix(b))
}

// Unix returns src with the line ends of Unix.
func Unix(src []byte) []byte {
	return bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))
}

// Names that the go command knows in file names, of today and of the past.
var (
	systems = []string{
		"aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "nacl", "netbsd", "openbsd", "plan9", "solaris",
		"wasip1", "windows", "zos",
	}
	architectures = []string{
		"386", "amd64", "amd64p32", "arm", "armbe", "arm64", "arm64be", "loong64", "mips", "mipsle", "mips64", "mips64le", "mips64p32",
		"mips64p32le", "ppc", "ppc64", "ppc64le", "riscv", "riscv64", "s390", "s390x", "sparc", "sparc64", "wasm",
	}
)
