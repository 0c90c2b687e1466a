package redistest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var shared struct {
	once sync.Once
	proc *process
	err  error
}

// Shared returns the one server of this test binary, started by the first test
// that asks. Use it with keys from [Key] and change nothing that other tests could
// notice: no Kill, Stop, FLUSHALL or CONFIG SET. It ends with the test binary.
func Shared(tb testing.TB) *RedisServer {
	tb.Helper()
	path := binary(tb)
	shared.once.Do(func() {
		shared.proc = newProcess(os.TempDir())
		shared.proc.binary = path
		shared.err = shared.proc.start()
	})
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return &RedisServer{tb: tb, proc: shared.proc}
}

var keys atomic.Int64

// Key returns a key that no other call returns, in this process or in another. It
// says which test it belongs to and ends in the suffix. It holds no character that
// means something to Redis Cluster. Those of one test are sorted as they are made.
func Key(tb testing.TB, suffix string) string {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("{}:", r) {
			return '_'
		}
		return r
	}, tb.Name())
	return fmt.Sprintf("%s.%d.%06d:%s", name, os.Getpid(), keys.Add(1), suffix)
}
