package lockrt

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// TestMemory bounds what each of many locks takes while it is held, and each of many calls while it waits. BenchmarkMemory has what
// comes to that: maps, and goroutines. What is rare has to be behind a pointer.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		what        string
		size, bound uintptr
	}{
		{"a resource with its first ticket", unsafe.Sizeof(resource{}), 224},
		{"a ticket", unsafe.Sizeof(ticket{}), 88},
		{"a grant with its guard", unsafe.Sizeof(grant{}), 224},
		{"a guard", unsafe.Sizeof(watchdog.Lease{}), 96},
		{"a lease", unsafe.Sizeof(Lease{}), 176},
		{"a waiter", unsafe.Sizeof(waiter{}), 240},
		{"an event", unsafe.Sizeof(event{}), 32},
	} {
		require.LessOrEqual(t, each.size, each.bound, each.what)
	}
}
