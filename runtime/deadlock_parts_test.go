package lockrt_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestDeadlock_EventOfAPart shows that the event about a call of a MultiLock has the kind and the name of the other events about that call, and
// the key of the part that waits. The snapshot has the kind of the part.
func TestDeadlock_EventOfAPart(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		member, call []lockrt.LockOption
		want         string
	}{
		"without a name":     {want: "multi"},
		"named by the call":  {call: []lockrt.LockOption{lockrt.WithName("call")}, want: "call"},
		"named by its parts": {member: []lockrt.LockOption{lockrt.WithName("first"), lockrt.WithName("second")}, want: "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forks(t, 1, lockrt.Options{BreakDeadlocks: true})[0]
			keys := []string{redistest.Key(t, "a"), redistest.Key(t, "b"), redistest.Key(t, "c")}
			part := func(i int) lockrt.Locker {
				if of.member == nil {
					return f.c.Mutex(keys[i])
				}
				return f.c.Mutex(keys[i], of.member[i])
			}
			f.has(f.c.Mutex(keys[2]))
			held := ok(t)(f.c.Mutex(keys[1]).Lock(patient(t)))
			g := &fork{t: t, c: f.c, waiting: f.waiting, lease: held}
			g.wants(f.c.Mutex(keys[2]))
			done := make(chan locked, 1)
			go func() {
				lease, err := lockrt.NewMultiLock(part(0), part(1)).Lock(f.lease.Context(), of.call...)
				done <- locked{lease, err}
			}()
			receive(t, f.waiting, "a call that waits")
			for _, w := range f.c.Snapshot().Waiting {
				require.Equal(t, lockrt.KindMutex, w.Kind)
			}
			for range 2 {
				e := receive(t, f.found, "a deadlock")
				if e.Key != keys[1] {
					continue
				}
				require.Equal(t, lockrt.KindMulti, e.Kind)
				require.Equal(t, of.want, e.Name)
				require.True(t, e.Broken)
			}
			require.ErrorIs(t, receive(t, done, "the end of the call").err, lockrt.ErrDeadlock)
			free(t, f.lease)
			g.gets()
		})
	}
}
