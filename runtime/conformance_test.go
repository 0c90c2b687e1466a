package lockrt_test

import (
	"testing"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
)

func TestMutex_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) })
}

func TestRWMutex_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) })
}

func TestFairMutex_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker { return c.FairMutex(key) })
}
