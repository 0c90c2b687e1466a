package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// TestInterrupt shows what an interrupted Java thread leaves to the others, as docs/java.md says.
func TestInterrupt(t *testing.T) {
	f := newFleet(t, standalone(t), theVersion(t))
	java := f.javaSide(t, f.j, "interrupted", short)
	for _, asks := range []struct {
		k    *kind
		call string
		args []string
	}{
		{mutexKind, "lock", []string{"0"}},
		{mutexKind, "tryLock", []string{millis(long), "0"}},
		{mutexKind, "lockInterruptibly", nil},
		{fairKind, "lockInterruptibly", nil},
		{writeKind, "lockInterruptibly", nil},
		{readKind, "lockInterruptibly", nil},
	} {
		t.Run("in a request of "+asks.call+", "+asks.k.name, func(t *testing.T) {
			k, key := asks.k, aKey(t, "k")
			th := java.thread(asks.call + "s-" + k.java)
			looks := th.thread("looks")
			f.nodes[0].Do("CLIENT", "PAUSE", millis(patience), "WRITE")
			done := th.start(append([]string{asks.call, k.java, key}, asks.args...)...)
			f.soon(t, func() bool { return looks.do(t, "asking", th.name) == "true" }, "it does not ask")
			looks.do(t, "interrupt", th.name)
			require.ErrorContains(t, (<-done).err, "RedisException: java.lang.InterruptedException")
			f.nodes[0].Do("CLIENT", "UNPAUSE")
			f.soon(t, func() bool { return th.do(t, "isHeld", k.java, key) == "true" }, "it does not have the lock")
			rival := k.against().lock(f.side, key)
			_, err := rival.Lock(soon(t), lockrt.WithWait(2*short))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, "for longer than a lease")
			th.do(t, "unlock", k.java, key)
			lease, err := rival.Lock(soon(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(soon(t)))
		})
	}
	for what, calls := range map[string][3][]string{
		"semaphore": {{"semaphoreSet", "1"}, {"semaphoreAcquire", "1"}, {"semaphoreAvailable"}},
		"permits":   {{"permitSet", "1"}, {"permitAcquire", "0"}, {"permitAvailable"}},
	} {
		t.Run("in a request, "+what, func(t *testing.T) {
			key, th := aKey(t, "k"), java.thread("takes-"+what)
			looks := th.thread("looks")
			with := func(call []string) []string { return append([]string{call[0], key}, call[1:]...) }
			looks.do(t, with(calls[0])...)
			f.nodes[0].Do("CLIENT", "PAUSE", millis(patience), "WRITE")
			done := th.start(with(calls[1])...)
			f.soon(t, func() bool { return looks.do(t, "asking", th.name) == "true" }, "it does not ask")
			looks.do(t, "interrupt", th.name)
			require.ErrorContains(t, (<-done).err, "RedisException: java.lang.InterruptedException")
			f.nodes[0].Do("CLIENT", "UNPAUSE")
			f.soon(t, func() bool { return looks.do(t, with(calls[2])...) == "0" }, "no permit is taken")
		})
	}
	t.Run("in a fair queue", func(t *testing.T) {
		key := aKey(t, "k")
		give := took(t, fairKind.role().inGo(f.side), key)
		th := java.thread("queues")
		done := th.start("lockInterruptibly", fairKind.java, key)
		th.parked(t)
		th.thread("looks").do(t, "interrupt", th.name)
		require.ErrorContains(t, (<-done).err, "InterruptedException")
		require.EqualValues(t, 1, f.waiting(key), "it keeps its place")
		require.NoError(t, give(soon(t)))
		_, err := fairKind.lock(f.side, key).TryLock(soon(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it is the turn of a thread that does not come")
		lease, err := fairKind.lock(f.side, key).Lock(soon(t))
		require.NoError(t, err, "its place is over after FairWait")
		require.NoError(t, lease.Unlock(soon(t)))
	})
}

// TestDelete shows that a waiter for a fair lock is not told that Java deletes the lock with its queue, as docs/java.md says.
func TestDelete(t *testing.T) {
	const lease = 3 * short
	f := newFleet(t, standalone(t), theVersion(t))
	th := f.java.thread("queues")
	for side, waits := range map[string]acquire{
		"Go":   fairKind.role().inGo(f.goSide(t, lockrt.Options{})),
		"Java": fairKind.role().inJava(th),
	} {
		t.Run(side+" waits", func(t *testing.T) {
			key := aKey(t, "k")
			held, err := fairKind.lock(f.side, key).Lock(soon(t), lockrt.WithLease(lease))
			require.NoError(t, err)
			done := begin(soon(t), waits, key)
			f.soon(t, func() bool { return f.waiting(key) == 1 }, "nobody waits")
			if side == "Java" {
				th.parked(t)
			}
			deleted := time.Now()
			require.Equal(t, "true", f.java.do(t, "delete", fairKind.java, key))
			ended(t, held.Context())
			g := served(t, done)
			require.NoError(t, g.release(soon(t)))
			if side == "Java" {
				require.Greater(t, g.at.Sub(deleted), short, "it asks when the lease is over")
			}
		})
	}
}
