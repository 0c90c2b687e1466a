package locks

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// TestMemory bounds the memory of each of many held locks and waiting calls. BenchmarkMemory has maps and goroutines, too. A field that
// few of them use has to be behind a pointer.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		what        string
		size, bound uintptr
	}{
		{"a resource with its first ticket", unsafe.Sizeof(policy.Mutex{}), 160},
		{"a ticket", unsafe.Sizeof(resource.Ticket{}), 64},
		{"a grant with its guard", unsafe.Sizeof(resource.Grant{}), 112},
		{"a guard", unsafe.Sizeof(watchdog.Lease{}), 80},
		{"a lease", unsafe.Sizeof(leases.Lease{}), 80},
		{"a waiter", unsafe.Sizeof(resource.Waiter{}), 192},
		{"an event", unsafe.Sizeof(engine.Event{}), 32},
	} {
		require.LessOrEqual(t, each.size, each.bound, each.what)
	}
}
