// Package testmodule makes modules that use lockgen, for tests and measurements.
package testmodule

import (
	"os"
	"path/filepath"
	"strings"
)

// Write makes dir a module with that path, which requires what the module of lockgen in root requires, and finds lockgen there.
func Write(dir, root, path string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	const self = "github.com/lockgen/lockgen"
	own := strings.Replace(string(mod), "module "+self, "module "+path, 1) + "\nrequire " + self + " v0.0.0\n\nreplace " + self + " => " + root + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(own), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644)
}
