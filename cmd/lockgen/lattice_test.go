package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
)

// TestLattices makes random lattices of interfaces in up to three packages, generates, compiles, calls every method of every wrapper with a
// runtime that only writes down what it is asked for, and compares that with what the rule of inheritance says.
func TestLattices(t *testing.T) {
	t.Parallel()
	right, wrong, calls := lattices(t, 1, 300)
	require.Greater(t, right, 100)
	require.Greater(t, wrong, 100)
	require.Greater(t, calls, 500)
}

// FuzzLattices looks at more of them.
func FuzzLattices(f *testing.F) {
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) { lattices(t, seed, 10) })
}

// lattices looks at n lattices of one seed, all in one module. It says how many are right, how many have mistakes, and how many methods were called.
func lattices(t *testing.T, seed uint64, n int) (right, wrong, called int) {
	dir := t.TempDir()
	recorder, err := filepath.Abs(filepath.Join("testdata", "lattice"))
	require.NoError(t, err)
	put := func(name, text string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	put("go.mod", "module "+module+"\n\ngo 1.26.0\n\nrequire github.com/lockgen/lockgen v0.0.0\n\nreplace github.com/lockgen/lockgen => ./recorder\n")
	put("recorder/go.mod", "module github.com/lockgen/lockgen\n\ngo 1.26.0\n")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "recorder"), os.DirFS(recorder)))
	for pkg, options := range packageDefaults {
		text := "package " + packageName(pkg) + "\n\n//lockgen:service\ntype keep interface {\n\t//lockgen:lock key=keep wait=1s\n\tkeep() error\n}\n\nconst Used = true\n"
		if len(options) > 0 {
			text = "//lockgen:defaults" + arguments(options) + "\n" + text
		}
		put(packageName(pkg)+"/doc.go", text)
	}
	all := map[int]*lattice{}
	for id := range n {
		all[id] = newLattice(seed, id)
		for name, text := range all[id].sources() {
			put(name, text)
		}
	}

	// A run prints all mistakes at once.
	said := diagnose(t, dir)
	good := map[string]string{}
	var main strings.Builder
	for id, l := range all {
		calls, mistakes := l.expect()
		slices.Sort(mistakes)
		slices.Sort(said[id])
		require.Equal(t, slices.Compact(mistakes), said[id], "seed %d, lattice %d\n%s", seed, id, l)
		if len(mistakes) > 0 {
			wrong++
			for name := range l.sources() {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
			continue
		}
		right++
		maps.Copy(good, calls)
		l.calls(&main)
	}

	// Of the others every method is called.
	require.Empty(t, diagnose(t, dir))
	var stderr bytes.Buffer
	require.Zero(t, cli.Main([]string{"-cache=off", "-q", "./..."}, dir, &stderr, &stderr), "%s", &stderr)
	for _, packages := range [][]string{{"./c"}, {"./b", "./c"}} {
		args := append([]string{"-cache=off", "-q", "-check"}, packages...)
		require.Zero(t, cli.Main(args, dir, &stderr, &stderr), "the output does not depend on what else is in the run: %s", &stderr)
	}
	listed := list(t, dir, all)
	for name, asks := range good {
		require.Equal(t, asks, listed[name], "seed %d, %s as it is listed\n%s", seed, name, all[latticeOf(t, name)])
	}
	put("main.go", fmt.Sprintf(program, main.String()))
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, asks, ok := strings.Cut(strings.TrimSpace(line), " = ")
		require.True(t, ok, line)
		got[name] = asks
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(good)), slices.Collect(maps.Keys(got)))
	for name, asks := range good {
		require.Equal(t, asks, got[name], "seed %d, %s\n%s", seed, name, all[latticeOf(t, name)])
	}
	return right, wrong, len(good)
}

// latticeOf is the number of the lattice that a name or a file is of.
func latticeOf(t *testing.T, name string) (id int) {
	_, err := fmt.Sscanf(strings.ToLower(name), "l%d", &id)
	require.NoError(t, err, name)
	return id
}

// list is what the command of that name says about each method, in the words of the model.
func list(t *testing.T, dir string, all map[int]*lattice) map[string]string {
	var stdout, stderr bytes.Buffer
	require.Zero(t, cli.Main([]string{"list", "-json", "./..."}, dir, &stdout, &stderr), "%s", &stderr)
	var rows []struct {
		Method string
		Keys   []struct {
			Key, Kind string
			Permits   int
			Fence     bool
		}
		Options []struct{ Name, Value string }
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows))
	listed := map[string]string{}
	for _, row := range rows {
		name := row.Method[2:] // without the package
		if !strings.HasPrefix(name, "L") {
			continue
		}
		if len(row.Keys) == 0 {
			listed[name] = "nothing"
			continue
		}
		iface, method, _ := strings.Cut(name, ".")
		faces := all[latticeOf(t, name)].faces
		f := faces[slices.IndexFunc(faces, func(f *face) bool { return f.name == iface })]
		c := claim{by: &face{pkg: 1}, names: f.names(method)[0]} // a row has everything that counts
		for _, k := range row.Keys {
			d := &said{key: k.Key, kind: k.Kind, options: map[string]string{}}
			if k.Fence {
				d.options["fence"] = ""
			}
			c.said = append(c.said, d)
		}
		for _, o := range row.Options {
			if o.Name != "fence" {
				c.said[0].options[o.Name] = o.Value
			}
		}
		listed[name] = c.signature(c.by)
	}
	return listed
}

// program calls methods of wrappers: once when the lock is free, once when it is busy.
const program = `package main

import (
	"context"
	"fmt"
	"strings"

	"example.com/shop/a"
	"example.com/shop/b"
	"example.com/shop/c"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
)

type impl struct{}

func (impl) M0(ctx context.Context, p, q string) error { return reached(p, q) }
func (impl) M1(ctx context.Context, p, q string) error { return reached(p, q) }
func (impl) M2(ctx context.Context, p, q string) error { return reached(p, q) }

var count int

func reached(p, q string) error {
	count++
	if p != "A" || q != "B" {
		panic(p + q)
	}
	return nil
}

func call(pkg, name string, method func(context.Context, string, string) error) {
	gen.Said, gen.Busy, count = nil, false, 0
	if err := method(context.Background(), "A", "B"); err != nil || count != 1 {
		panic(name)
	}
	asks := "nothing"
	if len(gen.Said) > 0 {
		asks = strings.TrimPrefix(strings.Join(gen.Said, " and "), pkg+"."+name+": ")
	}
	gen.Busy = true
	if err := method(context.Background(), "A", "B"); asks != "nothing" && count != 1 {
		panic("called without the lock: " + name)
	} else if asks != "nothing" && err == nil {
		asks += " or skips"
	}
	fmt.Println(name, "=", asks)
}

var _, _, _ = a.Used, b.Used, c.Used

func main() {
%s}
`

func packageName(pkg int) string { return string(rune('a' + pkg)) }

// diagnose asks for all mistakes, and puts them in the words of the model, by the lattice.
func diagnose(t *testing.T, dir string) map[int][]string {
	var stdout, stderr bytes.Buffer
	cli.Main([]string{"-cache=off", "-q", "-n", "-json", "./..."}, dir, &stdout, &stderr)
	var report struct {
		Diagnostics []struct {
			File, Message string
			Line          int
		}
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &report), "%s%s", &stdout, &stderr)
	said := map[int][]string{}
	for _, d := range report.Diagnostics {
		id := latticeOf(t, filepath.Base(d.File))
		place := fmt.Sprintf("%s:%d", filepath.Base(d.File), d.Line)
		var text string
		switch m := d.Message; {
		case twice.MatchString(m):
			found := twice.FindStringSubmatch(m)
			text = fmt.Sprintf("%s.%s: %s and %s", found[2], found[1], place, filepath.Base(found[3]))
		case strings.HasPrefix(m, "no method of "):
			text = strings.Fields(m)[3] + ": no lock"
		case strings.Contains(m, "so this has no effect"):
			text = place + ": no effect"
		case strings.Contains(m, "in one of the interfaces that declare it"):
			text = place + ": two meanings"
		default:
			text = place + ": " + m
		}
		said[id] = append(said[id], text)
	}
	for id := range said {
		slices.Sort(said[id])
		said[id] = slices.Compact(said[id])
	}
	return said
}

var twice = regexp.MustCompile(`^(\w+) is embedded in (\w+) twice, with this and with something else at (\S+): say`)

// A printer writes a file and knows its lines.
type printer struct {
	strings.Builder
	name string
	line int
}

func (p *printer) print(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
	p.line++
}

func (p *printer) directive(verb, indent string, d *said, options string) {
	p.print("%s//lockgen:%s%s", indent, verb, options+arguments(d.options))
	d.file, d.line = p.name, p.line
}

// arguments are options as a directive has them, in one order.
func arguments(options map[string]string) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(options)) {
		all.WriteString(" " + name)
		if options[name] != "" {
			all.WriteString("=" + options[name])
		}
	}
	return all.String()
}

// sources are the files of a lattice.
func (l *lattice) sources() map[string]string {
	files := map[string]string{}
	for pkg := range packageDefaults {
		p := &printer{name: fmt.Sprintf("l%d.go", l.id)}
		p.print("package %s", packageName(pkg))
		var body printer
		body.name, body.line = p.name, 8
		for _, f := range l.faces {
			if f.pkg == pkg {
				f.print(&body)
			}
		}
		if body.Len() == 0 {
			continue
		}
		imports := []string{"", "", ""}
		for at, path := range []string{"context", module + "/a", module + "/b"} {
			if name := filepath.Base(path); strings.Contains(body.String(), name+".") && name != packageName(pkg) {
				imports[at] = fmt.Sprintf("%q", path)
			}
		}
		p.print("\nimport (\n\t%s\n\t%s\n\t%s\n)\n", imports[0], imports[1], imports[2])
		files[filepath.Join(packageName(pkg), p.name)] = p.String() + body.String()
	}
	return files
}

// String has all of a lattice, as a scenario has files.
func (l *lattice) String() string {
	var b strings.Builder
	files := l.sources()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "-- %s --\n%s", name, files[name])
	}
	return b.String()
}

func (f *face) print(p *printer) {
	p.print("")
	if f.service != nil {
		p.directive("service", "", f.service, "")
	}
	for _, method := range slices.Sorted(maps.Keys(f.others)) {
		printAll(p, "", f.others[method], " method="+method)
	}
	params, typ := "", "string"
	if f.generic {
		params, typ = "[T ~string]", "T"
	}
	switch f.form {
	case "alias":
		p.print("type %s = %s", f.name, f.embeds[0].ref(f, typ))
		return
	case "named":
		p.print("type %s%s %s", f.name, params, f.embeds[0].ref(f, typ))
		return
	case "alias literal":
		params += " ="
	}
	p.print("type %s%s interface {", f.name, params)
	for i := range max(len(f.methods), len(f.embeds)) {
		if i < len(f.methods) {
			d := f.methods[i]
			printAll(p, "\t", d.said, "")
			p.print("\t%s(ctx context.Context, %s, %s %s) error", d.method, d.names[0], d.names[1], typ)
		}
		if i < len(f.embeds) {
			p.print("\t%s", f.embeds[i].ref(f, typ))
		}
	}
	p.print("}")
}

func printAll(p *printer, indent string, all []*said, options string) {
	for _, d := range all {
		if d.nolock {
			p.directive("nolock", indent, d, options)
		} else {
			p.directive("lock", indent, d, options+" key="+d.key)
		}
	}
}

// ref names an interface in another one.
func (f *face) ref(from *face, typ string) string {
	name := f.name
	if f.generic {
		name += "[" + typ + "]"
	}
	if f.pkg != from.pkg {
		name = packageName(f.pkg) + "." + name
	}
	return name
}

// calls writes the calls of all wrappers.
func (l *lattice) calls(b *strings.Builder) {
	for _, f := range l.faces {
		if f.service == nil {
			continue
		}
		args := ""
		if f.generic {
			args = "[string]"
		}
		fmt.Fprintf(b, "\tw%[1]s := %[2]s.NewLocked%[1]s%[3]s(impl{}, &lockrt.Client{})\n", f.name, packageName(f.pkg), args)
		used := false
		for k := range 3 {
			if method := fmt.Sprintf("M%d", k); len(f.names(method)) > 0 {
				used = true
				fmt.Fprintf(b, "\tcall(%q, %q, w%s.%s)\n", packageName(f.pkg), f.name+"."+method, f.name, method)
			}
		}
		if !used {
			fmt.Fprintf(b, "\t_ = w%s\n", f.name)
		}
	}
}
