package lockrt_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// threeInACircle has three clients wait for each other's locks of a deployment. The last one fails with an error that names all, and the
// others have what they want.
func threeInACircle(t *testing.T, url string) {
	t.Helper()
	var all []*fork
	var keys []string
	for i := range 3 {
		all = append(all, newFork(t, url, fmt.Sprint("service", i), lockrt.Options{BreakDeadlocks: true}))
		keys = append(keys, redistest.Key(t, fmt.Sprint("key", i)))
	}
	for i, f := range all {
		f.has(f.c.Mutex(keys[i]))
	}
	for i, f := range all {
		f.wants(f.c.Mutex(keys[(i+1)%3]))
	}
	why := all[2].fails(3)
	for i, call := range why.Deadlock.Calls {
		require.Equal(t, keys[(i+1)%3], call.Key)
		require.Equal(t, fmt.Sprint("service", i), call.Process.Name)
		all[i].told(3, i == 2)
	}
	all[1].gets()
	all[0].gets()
}

// TestDeadlock_Cluster finds a circle of keys in several slots.
func TestDeadlock_Cluster(t *testing.T) {
	t.Parallel()
	threeInACircle(t, redistest.SharedCluster(t).URL())
}

// TestDeadlock_Sentinel finds a circle before and after another server has become the master.
func TestDeadlock_Sentinel(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	threeInACircle(t, group.URL())
	group.Failover()
	threeInACircle(t, group.URL())
}
