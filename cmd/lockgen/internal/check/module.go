package check

import (
	"os"
	"path/filepath"
	"strings"
)

// module names the module that a file is of: by its directory, and for a vendored one, which has no go.mod, by the part of the directory that
// vendor/modules.txt knows.
func module(name string) string {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "vendor" {
			if list, err := os.ReadFile(filepath.Join(dir, "modules.txt")); err == nil {
				return vendored(dir, string(list), name)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// vendored is the directory of the module that a file below a directory of vendored modules is of.
func vendored(dir, list, name string) string {
	longest := dir
	for line := range strings.Lines(list) {
		words := strings.Fields(line) // # example.com/dep v1.0.0
		if len(words) < 2 || words[0] != "#" {
			continue
		}
		root := filepath.Join(dir, filepath.FromSlash(words[1]))
		if strings.HasPrefix(name, root+string(filepath.Separator)) && len(root) > len(longest) {
			longest = root
		}
	}
	return longest
}
