package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lockctl runs verbs of the program.
type lockctl struct {
	path, url string
}

func (f *fleet) lockctl(t *testing.T) lockctl {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockctl")
	out, err := exec.Command("go", "build", "-o", path, "github.com/lockgen/lockgen/cmd/lockctl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return lockctl{path, f.url}
}

// prints runs a verb, which succeeds, and returns all that it prints.
func (l lockctl) prints(t *testing.T, args ...string) string {
	t.Helper()
	args = slices.Insert(args, 1, "-timeout", long.String()) // processes on a busy machine answer late
	cmd := exec.CommandContext(soon(t), l.path, args...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+l.url)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "lockctl %v: %s", args, out)
	return string(out)
}

// operators shows what lockctl says of Java programs that hold locks and wait for them, and has it take a lock from one.
func (f *fleet) operators(t *testing.T) {
	l := f.lockctl(t)
	const java = `Java [0-9a-f-]{36}`
	for _, k := range []*kind{mutexKind, fairKind, writeKind} {
		f.cell(t, k.name, "lockctl shows a Java holder and takes the lock from it", func(t *testing.T) string {
			key := aKey(t, "k")
			f.java.do(t, "lock", k.java, key, "0")
			require.Contains(t, l.prints(t, "list", "-scan", "-json", key), `"java": true`, "nobody waits for it")
			require.Regexp(t, "held by thread .* of "+java, l.prints(t, "show", key))

			second := f.java.thread("operated")
			inJava := second.start("lock", k.java, key, "0")
			second.parked(t)
			inGo := begin(soon(t), k.role().inGo(f.side), key)
			k.role().queued(t, f, key)
			require.Contains(t, l.prints(t, "list", "-json", key), `"java": true`)
			why := l.prints(t, "why", key)
			require.Contains(t, why, " has waited for ")
			require.Regexp(t, "held by thread .* of "+java, why)
			require.Contains(t, l.prints(t, "show", key), "1. ", "the waiter in Go")

			require.Contains(t, l.prints(t, "force", "-yes", key), "a Java program learns it when it unlocks")
			require.Equal(t, "false", f.java.do(t, "isHeld", k.java, key))
			for range 2 { // both waiters get it, one after the other
				select {
				case g := <-inGo:
					require.NoError(t, g.err)
					require.NoError(t, g.release(soon(t)))
					inGo = nil
				case a := <-inJava:
					require.NoError(t, a.err)
					second.do(t, "unlock", k.java, key)
					inJava = nil
				case <-soon(t).Done():
					require.Fail(t, "nobody gets it")
				}
			}
			return "both waiters got it"
		})
	}
	f.cell(t, mutexKind.name, "lockctl shows a Java waiter's lock", func(t *testing.T) string {
		key := aKey(t, "k")
		give := took(t, mutexKind.role().inGo(f.side), key)
		waits := f.java.start("lock", mutexKind.java, key, "0")
		f.java.parked(t)
		require.Contains(t, l.prints(t, "list", "-json", key), fmt.Sprintf(`"pid": %d`, os.Getpid()))
		require.Contains(t, l.prints(t, "show", key), " pid ")
		require.NoError(t, give(context.WithoutCancel(soon(t))))
		select {
		case a := <-waits:
			require.NoError(t, a.err)
		case <-soon(t).Done():
			require.Fail(t, "it does not get the lock")
		}
		f.java.do(t, "unlock", mutexKind.java, key)
		return "named with its holder"
	})
}
