package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// before is the name of lockgen of another tree, usually an older commit, which takes turns with that of this one.
const before = "before"

// theirs are the modules of a tree that the program is built with, and where the tree has them.
var theirs = map[string]string{
	"github.com/lockgen/lockgen":                  "",
	"github.com/lockgen/lockgen/contrib/lockotel": "contrib/lockotel",
	"github.com/lockgen/lockgen/contrib/lockprom": "contrib/lockprom",
}

// A rival is this program with lockgen of another tree, as the workers of one scenario start it.
type rival struct {
	program string
	of      string // the primitive that it measures
}

type rivalKey struct{}

// against returns the context for the workers of lib that are a rival's.
func against(ctx context.Context, program string, lib library) (context.Context, library) {
	ctx = context.WithValue(ctx, rivalKey{}, rival{program, lib.name})
	lib.name = before
	return ctx, lib
}

// programOf returns the program that carries out orders for a library, and the name that the library has there.
func programOf(ctx context.Context, name string) (program, there string, err error) {
	if r, ok := ctx.Value(rivalKey{}).(rival); ok && name == before {
		return r.program, r.of, nil
	}
	program, err = os.Executable()
	return program, name, err
}

// buildBefore builds this program with lockgen of the tree in a folder, and returns where the program is, and what removes it. No tree
// builds no program.
func buildBefore(ctx context.Context, tree string) (program string, remove func(), err error) {
	if tree == "" {
		return "", func() {}, nil
	}
	if tree, err = filepath.Abs(tree); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "lockgen-bench")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", nil, err
		}
	}
	program, mod := filepath.Join(dir, "bench"), filepath.Join(dir, "go.mod")
	edit := []string{"mod", "edit"}
	for module, folder := range theirs {
		edit = append(edit, "-replace="+module+"="+filepath.Join(tree, folder))
	}
	for _, args := range [][]string{append(edit, mod), {"build", "-mod=mod", "-modfile=" + mod, "-o", program, "."}} {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("the program with lockgen of %s: go %s: %w: %s", tree, args[0], err, out)
		}
	}
	return program, func() { _ = os.RemoveAll(dir) }, nil
}
