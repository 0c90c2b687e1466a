package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPromised shows that each lock of the experiments has an owner of its own and a lease, that it is not taken twice, and that the key is
// free after the unlock: for one caller, and for many callers.
func TestPromised(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(addr string, lease time.Duration) (*client, error){promising: openPromising, straight: openStraight, inFull: openInFull} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPromised(t, open)
		})
	}
}

func testPromised(t *testing.T, open func(addr string, lease time.Duration) (*client, error)) {
	s := startServer(t)
	c, err := open(s.addr, kLease)
	require.NoError(t, err)
	do := s.rc.Do
	for _, n := range []int{1, 300} {
		holds := make([]held, n)
		all := func(f func(i int) error) {
			errs := make([]error, n)
			var callers sync.WaitGroup
			for i := range n {
				callers.Go(func() { errs[i] = f(i) })
			}
			callers.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
		}
		key := func(i int) string { return fmt.Sprint("promised:", n, ":", i) }
		all(func(i int) (err error) { holds[i], err = c.lock(key(i)); return err })
		owners := map[string]bool{}
		for i := range n {
			owner, err := do(t.Context(), s.rc.B().Hkeys().Key(key(i)).Build()).AsStrSlice()
			require.NoError(t, err)
			require.Len(t, owner, 1)
			owners[owner[0]] = true
			left, err := do(t.Context(), s.rc.B().Pttl().Key(key(i)).Build()).AsInt64()
			require.NoError(t, err)
			require.Positive(t, left)
		}
		require.Len(t, owners, n)
		other, err := open(s.addr, kLease) // a goroutine of the same process may wait
		require.NoError(t, err)
		_, err = other.lock(key(0))
		require.ErrorContains(t, err, "not free")
		all(func(i int) error { return holds[i].unlock() })
		for i := range n {
			there, err := do(t.Context(), s.rc.B().Exists().Key(key(i)).Build()).AsInt64()
			require.NoError(t, err)
			require.Zero(t, there)
		}
	}

	if c.lockAll == nil {
		return
	}
	keys := []string{"promised:a", "promised:b"}
	h, err := c.lockAll(keys)
	require.NoError(t, err)
	var owners [2][]string
	for i, key := range keys {
		owners[i], err = do(t.Context(), s.rc.B().Hkeys().Key(key).Build()).AsStrSlice()
		require.NoError(t, err)
		require.Len(t, owners[i], 1)
	}
	require.NotEqual(t, owners[0], owners[1])
	_, err = c.lockAll(keys)
	require.ErrorContains(t, err, "not free")
	require.NoError(t, h.unlock())
	left, err := do(t.Context(), s.rc.B().Exists().Key(keys...).Build()).AsInt64()
	require.NoError(t, err)
	require.Zero(t, left)
}
