package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/internal/testmodule"
)

// written are all places where a type is written that an annotated interface is made of, each with an undefined name.
var written = []string{
	service("", "A(ctx context.Context, id Undefined) error"),
	service("", "A(ctx context.Context, id string) (Undefined, error)"),
	service("", "A(ctx context.Context, id string) Undefined"),
	service("", "A(ctx context.Context, id string, more ...Undefined) error"),
	service("", "A(ctx context.Context, id *Undefined) error"),
	service("", "A(ctx context.Context, id string, x []Undefined) error"),
	service("", "A(ctx context.Context, id string, x [3]Undefined) error"),
	service("", "A(ctx context.Context, id string, x [Undefined]byte) error"),
	service("", "A(ctx context.Context, id string, x [unsafe.Sizeof(Undefined(0))]byte) error"),
	service("", "A(ctx context.Context, id string, x map[Undefined]int) error"),
	service("", "A(ctx context.Context, id string, x map[int]Undefined) error"),
	service("", "A(ctx context.Context, id string, x chan Undefined) error"),
	service("", "A(ctx context.Context, id string, x <-chan Undefined) error"),
	service("", "A(ctx context.Context, id string, x func(Undefined)) error"),
	service("", "A(ctx context.Context, id string, x func() Undefined) error"),
	service("", "A(ctx context.Context, id string, x func(...Undefined)) error"),
	service("", "A(ctx context.Context, id string, x struct{ X Undefined }) error"),
	service("", "A(ctx context.Context, id string, x struct{ Undefined }) error"),
	service("", "A(ctx context.Context, id string, x struct{ *Undefined }) error"),
	service("", "A(ctx context.Context, id string, x interface{ M(Undefined) }) error"),
	service("", "A(ctx context.Context, id string, x interface{ Undefined }) error"),
	service("", "A(ctx context.Context, id string, x Box[Undefined]) error"),
	service("", "A(ctx context.Context, id string, x Box[Box[Undefined]]) error"),
	service("", "A(ctx context.Context, id string, x Undefined[int]) error"),
	service("", "A(ctx context.Context, id string, x time.Undefined) error"),
	service("", "Undefined; A(ctx context.Context, id string) error"),
	service("", "Embedded[Undefined]; A(ctx context.Context, id string) error"),
	service("", "Embedded[[]Undefined]; A(ctx context.Context, id string) error"),
	service("", "interface{ B(Undefined) }; A(ctx context.Context, id string) error"),
	service("", "local; A(ctx context.Context, id string) error") + "\ntype local interface{ B(Undefined) }\n",
	service("", "local; A(ctx context.Context, id string) error") + "\ntype local interface{ Undefined }\n",
	service("", "local; A(ctx context.Context, id string) error") + "\ntype local Undefined\n",
	service("", "local; A(ctx context.Context, id string) error") + "\ntype local = Undefined\n",
	service("[T Undefined]", "A(ctx context.Context, id string) error"),
	service("[T any, U Undefined]", "A(ctx context.Context, id string) error"),
	service("[T ~string | Undefined]", "A(ctx context.Context, id T) error"),
	service("[T ~Undefined]", "A(ctx context.Context, id string) error"),
	service("[T []Undefined]", "A(ctx context.Context, id string) error"),
	service("[T interface{ *Undefined }]", "A(ctx context.Context, id string) error"),
	service("[T interface{ Undefined }]", "A(ctx context.Context, id string) error"),
	service("[T interface{ ~int | ~Undefined }]", "A(ctx context.Context, id string) error"),
	service("[T interface{ M(Undefined) }]", "A(ctx context.Context, id string) error"),
	service("[T interface{ M() Undefined }]", "A(ctx context.Context, id string) error"),
	service("[T Embedded[Undefined]]", "A(ctx context.Context, id string) error"),
	service("[T local]", "A(ctx context.Context, id string) error") + "\ntype local interface{ ~int | Undefined }\n",
	service("[T local[int]]", "A(ctx context.Context, id string) error") + "\ntype local[T Undefined] interface{ ~int }\n",
	service("", "A(ctx context.Context, id string, x local[int]) error") + "\ntype local[T Undefined] struct{}\n",
	service("", "A(ctx context.Context, id local) error") + "\ntype local Undefined\n",
	service("", "A(ctx context.Context, id local) error") + "\ntype local = Undefined\n",
	strings.Replace(service("", "A(ctx context.Context, id local) error"), "{id}", "{id.X}", 1) + "\ntype local struct{ X Undefined }\n",
	strings.Replace(service("", "A(ctx context.Context, id local) error"), "{id}", "{id.X()}", 1) + "\ntype local struct{}\n\nfunc (local) X() Undefined { panic(0) }\n",
	strings.Replace(service("", "A(ctx context.Context, id string) error"), "a:{id}", "@local", 1) + "\nfunc local(id Undefined) string { return \"\" }\n",
	strings.Replace(service("", "A(ctx context.Context, id string) error"), "a:{id}", "@local", 1) + "\nfunc local(id string) Undefined { return \"\" }\n",
	"//lockgen:service\ntype S Undefined\n",
	"//lockgen:service\ntype S = Undefined\n",
	"//lockgen:service\ntype S = Embedded[Undefined]\n",
	"//lockgen:locks\ntype L interface {\n\t//lockgen:lock key=a:{id}\n\tA(id Undefined) lockrt.EntityMutex[Undefined]\n}\n",
	"//lockgen:locks\ntype L interface {\n\t//lockgen:lock key=a:{id}\n\tA(id ID) lockrt.EntityMutex[Undefined]\n}\n",
	"//lockgen:locks\ntype L interface {\n\t//lockgen:lock key=a:{id}\n\tA(id ID) lockrt.Undefined[ID]\n}\n",
	"//lockgen:locks\ntype L interface {\n\t//lockgen:lock key=a:{id}\n\tA(id ID) Undefined\n}\n",
	"//lockgen:locks\ntype L[T Undefined] interface {\n\t//lockgen:lock key=a:{id}\n\tA(id ID) lockrt.EntityMutex[ID]\n}\n",
}

// service is one with a lock on the method that comes last.
func service(params, methods string) string {
	i := strings.LastIndex(methods, "; ")
	embedded := ""
	if i >= 0 {
		embedded, methods = "\t"+methods[:i]+"\n", methods[i+2:]
	}
	return "//lockgen:service\ntype S" + params + " interface {\n" + embedded + "\t//lockgen:lock key=a:{id}\n\t" + methods + "\n}\n"
}

// TestUndefined shows that a type that isn't there is the ordinary mistake with its place, wherever it is written, and that each of a run is told.
func TestUndefined(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, module))
	const head = "package p\n\nimport (\n\t\"context\"\n\t\"time\"\n\t\"unsafe\"\n\n\tlockrt \"github.com/lockgen/lockgen/runtime\"\n)\n\n" +
		"type Box[T any] struct{ Value T }\n\ntype Embedded[T any] interface{ B(T) }\n\ntype ID string\n\n"
	sources := map[string]string{}
	for i, src := range written {
		name := fmt.Sprintf("p%02d/a.go", i)
		sources[name] = head + src
		require.NoError(t, os.Mkdir(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(sources[name]), 0o600))
	}
	var stdout, stderr strings.Builder
	require.Equal(t, 1, cli.Main([]string{"-cache=off", "-json", "./..."}, dir, &stdout, &stderr), "%s", &stderr)
	var said struct {
		Diagnostics []struct {
			File, Message string
			Line, Column  int
			Width         int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &said))
	told := map[string][]string{}
	for _, d := range said.Diagnostics {
		line := strings.Split(sources[d.File], "\n")[d.Line-1]
		at := line[d.Column-1:]
		told[d.File] = append(told[d.File], fmt.Sprintf("%s at %q", d.Message, at[:min(len(at), d.Width)]))
	}
	for name, src := range sources {
		all := told[name]
		if len(all) == 0 || !strings.Contains(all[0], "ndefined") || !strings.HasSuffix(all[0], `Undefined"`) {
			t.Errorf("%s: %q\n%s", name, all, strings.TrimPrefix(src, head))
		}
	}
}
