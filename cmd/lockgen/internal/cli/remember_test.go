package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/testmodule"
)

// shops is a module of two packages with directives, and what they import: a package of the module, with an interface that is embedded, and one of two
// modules beside it.
var shops = map[string]string{
	"near/go.mod":   "module example.com/near\n\ngo 1.26.0\n",
	"near/near.go":  "package near\n\ntype ID string\n",
	"other/go.mod":  "module example.com/near\n\ngo 1.26.0\n",
	"other/near.go": "package near\n\ntype ID int\n",
	"shop/id/id.go": "package id\n\ntype ID string\n\nfunc (i ID) Text() string { return string(i) }\n\n" +
		"//lockgen:service\ntype Base interface {\n\t//lockgen:lock key=base:{id} wait=1s\n\tBase(id ID) error\n}\n",
	"shop/orders/orders.go": "package orders\n\nimport (\n\t\"context\"\n\n\t\"example.com/near\"\n\t\"example.com/shop/id\"\n)\n\n" +
		"//lockgen:service\ntype Service interface {\n\tid.Base\n\n\t//lockgen:lock key=order:{id}\n\tPay(ctx context.Context, id id.ID) error\n" +
		"\t//lockgen:lock key=near:{n}\n\tNear(ctx context.Context, n near.ID) error\n" +
		"\t//lockgen:lock key=size:{s}\n\tSized(ctx context.Context, s Size) error\n}\n\n" +
		"func work() int { return 1 }\n",
	"shop/orders/small.go": "//go:build !large\n\npackage orders\n\ntype Size int8\n",
	"shop/orders/large.go": "//go:build large\n\npackage orders\n\ntype Size string\n",
	"shop/bills/bills.go": "package bills\n\nimport \"context\"\n\n//lockgen:service\ntype Service interface {\n\t//lockgen:lock key=bill:{id}\n" +
		"\tPay(ctx context.Context, id int) error\n}\n",
}

// A tree is the files below a directory.
type tree struct {
	t     *testing.T
	dir   string
	files map[string]string // as they are while nothing is changed
}

func (f tree) put(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.dir, filepath.FromSlash(name))
	require.NoError(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(f.t, os.WriteFile(name, []byte(text), 0o600))
}

// change puts files there, and returns what puts all back.
func (f tree) change(files map[string]string) (back func()) {
	for name, text := range files {
		f.put(name, text)
	}
	return func() {
		for name := range files {
			if text, ok := f.files[name]; ok {
				f.put(name, text)
			} else {
				require.NoError(f.t, os.Remove(filepath.Join(f.dir, filepath.FromSlash(name))))
			}
		}
	}
}

// TestRemember_EachPackage: whatever changes, a run that believes what it remembers of each package says what a full run says, and believes it of all
// packages that do not depend on the change.
func TestRemember_EachPackage(t *testing.T) {
	t.Setenv("CI", "")
	home := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, home)
	}
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	f := tree{t, t.TempDir(), maps.Clone(shops)}
	dir := filepath.Join(f.dir, "shop")
	f.change(f.files)
	require.NoError(t, testmodule.Write(dir, root, "example.com/shop"))
	keep := func(name string) {
		text, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(name)))
		require.NoError(t, err)
		f.files[name] = string(text)
	}
	keep("shop/go.mod")
	f.files["shop/go.mod"] += "\nrequire example.com/near v0.0.0\n\nreplace example.com/near => ../near\n"
	f.put("shop/go.mod", f.files["shop/go.mod"])

	version := "1"
	// run says which packages were believed to be up to date.
	run := func(args ...string) (code int, said string, believed []string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		c, err := Parse(append(args, "./..."), &stderr)
		require.NoError(t, err, stderr.String())
		r := newRunner(c, dir)
		r.program = func() string { return version }
		code, err = r.run(&stdout, &stderr)
		require.NoError(t, err)
		for _, out := range r.outputs {
			if out.of.fresh {
				believed = append(believed, filepath.Base(filepath.Dir(out.Source)))
			}
		}
		return code, stdout.String() + stderr.String(), slices.Compact(believed)
	}
	believes := func(what string, code int, packages ...string) {
		t.Helper()
		got, said, believed := run("-cache=on", "-check", "-json")
		require.Equal(t, code, got, "%s: %s", what, said)
		require.ElementsMatch(t, packages, believed, what)
	}
	code, said, believed := run("-cache=on")
	require.Zero(t, code, said)
	require.Empty(t, believed)
	believes("what a run writes is not yet what it has found", 0)
	for _, name := range []string{"orders/orders_lockgen.go", "bills/bills_lockgen.go", "id/id_lockgen.go"} {
		keep("shop/" + name)
	}

	replace := func(name, old, new string) map[string]string {
		require.Contains(t, f.files[name], old)
		return map[string]string{name: strings.Replace(f.files[name], old, new, 1)}
	}
	// A package of the run becomes one of another module, in the same directory.
	apart := replace("shop/go.mod", "=> ../near\n", "=> ../near\n\nrequire example.com/shop/id v0.0.0\n\nreplace example.com/shop/id => ./id\n")
	apart["shop/id/go.mod"] = "module example.com/shop/id\n\ngo 1.26.0\n"
	const none, wrong = 0, 1
	for what, change := range map[string]struct {
		files    map[string]string
		args     []string
		code     int
		believed []string
	}{
		"a key":                           {replace("shop/orders/orders.go", "order:{", "orders:{"), nil, wrong, []string{"bills", "id"}},
		"a body":                          {replace("shop/orders/orders.go", "return 1", "return 2"), nil, none, []string{"bills", "id"}},
		"a comment":                       {replace("shop/bills/bills.go", "package bills\n", "package bills\n\n// X.\n"), nil, none, []string{"orders", "id"}},
		"a body of what is imported":      {replace("shop/id/id.go", "string(i)", `"id" + string(i)`), nil, none, []string{"bills", "orders"}},
		"a type of what is imported":      {replace("shop/id/id.go", "ID string", "ID []byte"), nil, wrong, []string{"bills"}},
		"a method of what is imported":    {replace("shop/id/id.go", ") Text()", ") LockKey()"), nil, wrong, []string{"bills"}},
		"a directive of what is embedded": {replace("shop/id/id.go", "wait=1s", "wait=2s"), nil, wrong, []string{"bills"}},
		"a module beside it":              {replace("near/near.go", "ID string", "ID int"), nil, wrong, []string{"bills", "id"}},
		"a module that is not used":       {replace("other/near.go", "ID int", "ID uint"), nil, none, nil}, // the run as a whole is believed
		"go.mod":                          {replace("shop/go.mod", "=> ../near", "=> ../other"), nil, wrong, []string{"bills", "id"}},
		"a go.mod for what is embedded":   {apart, nil, wrong, []string{"bills"}},
		"a new source":                    {map[string]string{"shop/bills/new.go": strings.Replace(f.files["shop/bills/bills.go"], "Service interface", "Other interface", 1)}, nil, wrong, []string{"orders", "id"}},
		"a package with a key of another": {map[string]string{"shop/more/more.go": strings.Replace(f.files["shop/bills/bills.go"], "id int", "id string", 1)}, nil, wrong, []string{"orders", "bills", "id"}},
		"a name in a test":                {map[string]string{"shop/bills/a_test.go": "package bills\n\nfunc lockrt() {}\n"}, nil, wrong, []string{"orders", "id"}},
		"an output, by hand":              {replace("shop/bills/bills_lockgen.go", "Pay", "pay"), nil, wrong, []string{"orders", "id"}},
		"an output of what is imported":   {replace("shop/id/id_lockgen.go", "Base", "base"), nil, wrong, []string{"bills", "orders"}},
		"a flag":                          {nil, []string{"-tags=large"}, wrong, nil},
	} {
		back := f.change(change.files)
		code, said, believed := run(append(change.args, "-cache=on", "-check", "-json")...)
		full, want, _ := run(append(change.args, "-cache=off", "-check", "-json")...)
		require.Equal(t, want, said, what)
		require.Equal(t, full, code, what)
		require.Equal(t, change.code, code, "%s: %s", what, said)
		require.ElementsMatch(t, change.believed, believed, what)
		back()
		if code == none {
			_, _, _ = run("-cache=on", "-check") // records the result again
		}
	}

	// A file that is gone: the run writes it anew, and believes the others.
	require.NoError(t, os.Remove(filepath.Join(dir, "bills", "bills_lockgen.go")))
	code, said, believed = run("-cache=on")
	require.Zero(t, code, said)
	require.ElementsMatch(t, []string{"orders", "id"}, believed)
	require.FileExists(t, filepath.Join(dir, "bills", "bills_lockgen.go"))

	// A run does not use the results of another version of the program, or those for another system.
	believes("as it was", 0)
	version = "2"
	believes("another version", 0)
	believes("this version again", 0) // the run as a whole is believed
	t.Setenv("GOARCH", map[bool]string{true: "arm64", false: "amd64"}[os.Getenv("GOARCH") == "amd64"])
	believes("another system", 0)
}
