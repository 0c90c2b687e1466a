package main_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/internal/testmodule"
)

// ownCache gives the test a cache directory of its own, below the folder that it returns.
func ownCache(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("HOME", home)
	t.Setenv("LocalAppData", home)
	return home
}

// TestCache_RunsAtOnce: what one run finds up to date, since another has just written it, is not remembered as what the run began with.
func TestCache_RunsAtOnce(t *testing.T) {
	ownCache(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, module))
	source, output := filepath.Join(dir, "a.go"), filepath.Join(dir, "a_lockgen.go")
	require.NoError(t, os.WriteFile(source, []byte("package a\n\n//lockgen:service\ntype S interface {\n\t//lockgen:lock key=a wait=0\n\tA() error\n}\n"), 0o600))
	run := func() { assert.Zero(t, cli.Main([]string{"-cache=on"}, dir, io.Discard, io.Discard)) }
	for range 4 {
		var runs sync.WaitGroup
		for i := range 3 {
			runs.Go(func() {
				for range i + 2 {
					_ = os.Remove(output) // another run may have done so
					run()
				}
			})
		}
		runs.Wait()
		_ = os.Remove(output)
		run()
		require.FileExists(t, output)
	}
	require.NoError(t, os.Remove(output))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "go.mod, go.sum and the source")
}

// TestCache shows that a run over what is known to be up to date looks no further, and that every change is noticed all the same.
func TestCache(t *testing.T) {
	home := ownCache(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	modules := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(modules, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	dir := filepath.Join(modules, "shop")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, testmodule.Write(dir, root, module))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	write("shop/go.mod", string(mod)+"\nrequire example.com/near v0.0.0\n\nreplace example.com/near => ../near\n")
	write("near/go.mod", "module example.com/near\n\ngo 1.26.0\n")
	const near, id = "package near\n\ntype ID string\n", "package id\n\ntype ID string\n"
	write("near/near.go", near)
	write("shop/id/id.go", id)
	source := `package orders

import (
	"context"

	"example.com/near"
	"example.com/shop/id"
)

//lockgen:service
type Service interface {
	//lockgen:lock key=order:{id}
	Pay(ctx context.Context, id id.ID) error
	//lockgen:lock key=near:{n}
	Near(ctx context.Context, n near.ID) error
}
`
	write("shop/orders/orders.go", source)
	run := func(args ...string) int {
		t.Helper()
		return cli.Main(append(args, "./orders"), dir, io.Discard, io.Discard)
	}
	kept := func() os.FileInfo {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(home, "*", "lockgen", "calls", "*"))
		require.NoError(t, err)
		more, err := filepath.Glob(filepath.Join(home, "lockgen", "calls", "*"))
		require.NoError(t, err)
		names = append(names, more...)
		require.Len(t, names, 1)
		info, err := os.Stat(names[0])
		require.NoError(t, err)
		return info
	}
	require.Zero(t, run("-cache=on"))
	require.Zero(t, run("-cache=on", "-check"))
	first := kept()
	require.Zero(t, run("-cache=on", "-check"))
	require.Zero(t, run("-cache=on"))
	require.True(t, os.SameFile(first, kept()), "known: found without being kept again")
	require.Zero(t, run("-cache=off", "-check"))

	output, err := os.ReadFile(filepath.Join(dir, "orders", "orders_lockgen.go"))
	require.NoError(t, err)
	for what, change := range map[string]func(){
		"the source":           func() { write("shop/orders/orders.go", strings.Replace(source, "order:{", "orders:{", 1)) },
		"the output":           func() { write("shop/orders/orders_lockgen.go", string(output)+"\n// x\n") },
		"the output, gone":     func() { require.NoError(t, os.Remove(filepath.Join(dir, "orders", "orders_lockgen.go"))) },
		"another output":       func() { write("shop/orders/old_lockgen.go", string(output[:strings.Index(string(output), "import")])) },
		"a new source":         func() { write("shop/orders/new.go", strings.ReplaceAll(source, "Service", "Other")) },
		"a package it imports": func() { write("shop/id/id.go", strings.Replace(id, "string", "int", 1)) },
		"a module beside it":   func() { write("near/near.go", strings.Replace(near, "string", "int", 1)) },
		"a test":               func() { write("shop/orders/orders_test.go", strings.ReplaceAll(source, "Service", "Tested")) },
	} {
		require.Zero(t, run("-cache=on", "-check"), what)
		change()
		require.Equal(t, 1, run("-cache=on", "-check"), what)
		write("shop/orders/orders.go", source)
		write("shop/orders/orders_lockgen.go", string(output))
		write("shop/id/id.go", id)
		write("near/near.go", near)
		for _, name := range []string{"old_lockgen.go", "new.go", "orders_test.go"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "orders", name)))
		}
	}

	// A run prints the notes that an earlier run with -q did not print.
	write("shop/orders/orders.go", strings.Replace(source, "near:{n}", "order:x-{n}", 1))
	require.Zero(t, run("-cache=on", "-q"))
	require.Zero(t, run("-cache=on", "-q", "-check"))
	require.Equal(t, 1, run("-cache=on", "-strict", "-check"))
	write("shop/orders/orders.go", source)
	require.Zero(t, run("-cache=on"))
	require.Zero(t, run("-cache=on", "-check"))

	// Nothing is remembered that depends on what a test imports.
	write("shop/orders/dot_test.go", "package orders\n\nimport . \"example.com/shop/kit\"\n\nvar _ Kit\n")
	write("shop/kit/kit.go", "package kit\n\ntype Kit string\n")
	require.Zero(t, run("-cache=on", "-check"))
	write("shop/kit/kit.go", "package kit\n\ntype Kit string\n\ntype LockedService Kit\n")
	require.Equal(t, 1, run("-cache=on", "-check"))
	require.NoError(t, os.Remove(filepath.Join(dir, "orders", "dot_test.go")))

	t.Setenv("CI", "true")
	last := kept()
	require.Zero(t, run("-cache=on", "-check"))
	require.Zero(t, run("-cache=auto", "-check"))
	require.True(t, os.SameFile(last, kept()), "in CI nothing is believed, and nothing kept")
	require.Equal(t, 2, run("-cache=maybe"))
}

// TestCache_OfBuilds: a run does not need what the go command has built before, and leaves it to others to begin with that.
func TestCache_OfBuilds(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "builds")
	t.Setenv("GOCACHE", cache)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, module))
	source := "package a\n\nimport \"context\"\n\n//lockgen:service\ntype S interface {\n\t//lockgen:lock key=a\n\tA(ctx context.Context) error\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600))
	require.Zero(t, cli.Main([]string{"./..."}, dir, io.Discard, t.Output()))
	require.FileExists(t, filepath.Join(dir, "a_lockgen.go"))
	built, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, built)
}
