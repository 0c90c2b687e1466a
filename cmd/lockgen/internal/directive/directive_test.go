package directive_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

// parse reads one comment that starts at column 1 of a file.
func parse(text string) (*directive.Directive, []diag.Diagnostic) {
	fset := token.NewFileSet()
	f := fset.AddFile("a.go", -1, len(text)+1)
	list := diag.New(fset)
	d := directive.Parse(list, &ast.Comment{Slash: f.Pos(0), Text: text})
	return d, list.Sorted()
}

func TestParse(t *testing.T) {
	t.Parallel()
	d, wrong := parse("//lockgen:lock key=order:{o.ID}\t\"wait=3s\"  busy=skip `lease=1m` ctx=c scope=return")
	require.Empty(t, wrong)
	require.Equal(t, directive.Lock, d.Verb)
	require.Equal(t, "order:{o.ID}", d.Key.Value)
	require.Equal(t, 3*time.Second, *d.Timing.Wait)
	require.Equal(t, time.Minute, *d.Timing.Lease)
	require.Nil(t, d.Timing.Watchdog)
	require.True(t, d.Busy.Is("skip"))
	require.Equal(t, "c", d.Ctx.Value)

	d, wrong = parse("//lockgen:service require=all name=X prefix=p wait=ctx watchdog=1s")
	require.Empty(t, wrong)
	require.True(t, d.RequireAll())
	require.Equal(t, directive.UntilDone, *d.Timing.Wait)

	d, wrong = parse("// an ordinary comment")
	require.Empty(t, wrong)
	require.Nil(t, d)
}

func TestParse_PlacesOfValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"//lockgen:lock key=order:{o.Id}",
		"//lockgen:lock  \"key=order:{o.Id}\" wait=0",
		"//lockgen:lock wait=0 `key=order:{o.Id}`",
	} {
		d, wrong := parse(text)
		require.Empty(t, wrong)
		from, to := d.Key.At(9, 11) // Id
		require.Equal(t, "Id", text[from-1:to-1], text)
		from, to = d.Key.ValuePos()
		require.Equal(t, "order:{o.Id}", text[from-1:to-1], text)
	}
	// With escapes the bytes of the value are not those of the source, so the whole argument is the place.
	text := `//lockgen:lock "key=order:{o.\x49d}"`
	d, wrong := parse(text)
	require.Empty(t, wrong)
	from, to := d.Key.At(9, 11)
	require.Equal(t, `"key=order:{o.\x49d}"`, text[from-1:to-1])
}

func TestTiming_Over(t *testing.T) {
	t.Parallel()
	a, b, c := time.Second, 2*time.Second, 3*time.Second
	base := directive.Timing{Wait: &a, Watchdog: &b}
	require.Equal(t, directive.Timing{Wait: &a, Watchdog: &b}, directive.Timing{}.Over(base))
	require.Equal(t, directive.Timing{Wait: &c, Watchdog: &b}, directive.Timing{Wait: &c}.Over(base))
	require.Equal(t, directive.Timing{Wait: &a, Lease: &c}, directive.Timing{Lease: &c}.Over(base), "a lease replaces a watchdog")
	require.Equal(t, directive.Timing{Wait: &a, Watchdog: &c}, directive.Timing{Watchdog: &c}.Over(directive.Timing{Wait: &a, Lease: &b}))
}

func TestMentioned(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"//lockgen:lock key=a", "x // lockgen:lock", "//Lockgen :lock", "/* lockgen:lock */", "/**\n lockgen:x", "////lockgen:lock\n//lockgen:lock",
		"//lokgen:lock", "a/b //+lockgen:x", strings.Repeat("/", 99) + " x\n//lockgen:", "///lockgen:lock", "//lockgen lock", "//lockgen：lock",
		"/* a\n * b\n * @lokgen:lock\n */", "/* a\n//lockgen:lock */", `"/*" + "*/" /* a` + "\n\tlockgen:lock */", "/* a */ /*\r\nlockgen:lock\r\n*/",
	} {
		require.True(t, directive.Mentioned([]byte(src)), src)
	}
	for _, src := range []string{"", "/", "//", "lockgen:lock", `import "github.com/lockgen/lockgen/runtime"`, "//locksmith:lock", "// the lockgen: lock",
		"/* a */\nlockgen:lock", strings.Repeat("/*", 1<<20)} {
		require.False(t, directive.Mentioned([]byte(src)), src)
	}
}

// FuzzCollect reads any file: no panic, and no comment that begins as directives do is passed over in silence.
func FuzzCollect(f *testing.F) {
	for _, comment := range []string{
		"//lockgen:lock key=a", "//lockgen:service wait=3s", "// lockgen:lock", "//lockgen :lok", "/* lockgen:lock */", "//lockgen:", "//lockgen:lock \"key=a",
		"//lockgen:lock key=a key=b", "//lockgen:defaults lease=1s watchdog=1s", "//lockgen:nolock\r", "//lockgen:lock key=\xff", "//lockgen:lock `",
	} {
		f.Add(comment, comment)
	}
	for _, comment := range slices.Concat(slices.Sorted(maps.Keys(nearMisses)), prose) {
		f.Add(comment, comment)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		src := "package a\n\n" + first + "\ntype S interface {\n" + second + "\n\tA()\n}\n"
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "a.go", src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return
		}
		list := diag.New(fset)
		got := directive.Collect(list, file)
		placed := len(got.Interfaces)
		if got.Defaults != nil {
			placed++
		}
		for _, directives := range got.Methods {
			placed += len(directives)
		}
		ours := 0
		for _, group := range file.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//lockgen:") {
					ours++
					require.True(t, directive.Mentioned([]byte(src)))
				}
			}
		}
		require.True(t, list.Len() == 0 || directive.Mentioned([]byte(src)), src)
		require.LessOrEqual(t, ours, placed+list.Len(), src)
		for _, d := range list.Sorted() {
			require.True(t, d.Pos.IsValid(), d.Message)
			require.Positive(t, d.Width, d.Message)
		}
	})
}
