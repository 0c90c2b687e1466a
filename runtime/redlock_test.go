package runtime_test

import (
	"testing"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
)

// TestRedLock_KeepsThePromisesOfALocker has the parts on one server, so that what befalls it befalls all.
func TestRedLock_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker {
		return lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
	}, locktest.MajorityOfKeys)
}
