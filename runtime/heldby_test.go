package lockrt_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// dayTime matches a time in the text of a holder.
const dayTime = `(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d`

// A lockOf makes a lock of a key.
type lockOf func(c *lockrt.Client, key string) lockrt.Locker

// A contention is a lock that one call holds and another one wants, for which the first is in the way.
type contention struct{ holds, wants lockOf }

func contentions() map[string]contention {
	mutex, fair, rw := lockOf(exclusives["Mutex"]), lockOf(exclusives["FairMutex"]), lockOf(exclusives["RWMutex"])
	reads := func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key).RLocker() }
	fenced := func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key, lockrt.WithFencing()) }
	several := func(c *lockrt.Client, key string) lockrt.Locker {
		return lockrt.NewMultiLock(c.Mutex(key+":free"), c.Mutex(key))
	}
	mixed := func(c *lockrt.Client, key string) lockrt.Locker {
		return lockrt.NewMultiLock(c.FairMutex(key+":free"), c.Mutex(key), c.RWMutex(key+":last"))
	}
	return map[string]contention{
		"Mutex": {mutex, mutex}, "fenced Mutex": {fenced, fenced}, "FairMutex": {fair, fair},
		"writer": {rw, rw}, "reader": {rw, reads}, "writer behind a reader": {reads, rw},
		"MultiLock": {mutex, several}, "MultiLock of all kinds": {mutex, mixed},
	}
}

// holderIn returns the holder in the error of a call for a key.
func holderIn(t *testing.T, err error, key string) *lockrt.Holder {
	t.Helper()
	of := (*lockrt.Error)(nil)
	require.ErrorAs(t, err, &of)
	require.Equal(t, key, of.Key, "also of several locks the one that was not to be had")
	return of.Holder
}

// A call that does not get a lock because another call of its client has it says so: a call that tries once, one whose wait is over and one
// whose context ends. The holder changes nothing about what the errors match.
func TestHeldBy_ThisProcess(t *testing.T) {
	t.Parallel()
	for name, of := range contentions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			hooks, told := recorded()
			c := newClient(t, lockrt.Options{Hooks: hooks})
			before := time.Now()
			held := ok(t)(of.holds(c, key).Lock(patient(t)))
			after := time.Now()
			check := func(err error) {
				t.Helper()
				require.Regexp(t, regexp.QuoteMeta(fmt.Sprintf("lock %q: ", key))+`.* \(held by this process, since `+dayTime+`\)$`, err.Error())
				h := holderIn(t, err, key)
				require.True(t, h.Own)
				require.Equal(t, c.ID(), h.Process.ID)
				require.Equal(t, c.Snapshot().Held[0].Owner, h.Owner)
				require.WithinRange(t, h.Since, before.Add(-time.Second), after.Add(time.Second))
			}
			wanted := of.wants(c, key)
			_, err := wanted.TryLock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			check(err)
			_, err = wanted.Lock(patient(t), lockrt.WithWait(50*time.Millisecond))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			check(err)
			for len(told.waits) > 0 {
				<-told.waits
			}
			ctx, cancel := context.WithCancel(patient(t))
			got := lockLater(ctx, wanted)
			receive(t, told.waits, "a call that waits")
			cancel()
			err = receive(t, got, "the call").err
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
			check(err)
			free(t, held)
		})
	}
}

// A call that was linked to the traces of the holders has learned of the holder in another process, and names it.
func TestHeldBy_AnotherProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	where := regexp.QuoteMeta(fmt.Sprintf("%s, pid %d", host, os.Getpid()))
	for name, of := range contentions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			holder, waiter := clientOf(t, server.URL(), lockrt.Options{}), newTracer(t, server.URL())
			before := time.Now()
			held := ok(t)(of.holds(holder, key).Lock(patient(t)))
			after := time.Now()
			audible(t, server, holder)
			err := waiter.gives(of.wants(waiter.c, key), key)
			require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
			require.Regexp(t, regexp.QuoteMeta(fmt.Sprintf("lock %q: context canceled; somebody else had it", key))+
				` \(held by `+where+`, since `+dayTime+`, seen at `+dayTime+`\)$`, err.Error())
			h := holderIn(t, err, key)
			require.False(t, h.Own)
			require.Equal(t, holder.Process().ID, h.Process.ID)
			require.Equal(t, holder.Snapshot().Held[0].Owner, h.Owner)
			require.WithinRange(t, h.Since, before.Add(-time.Second), after.Add(time.Second))
			require.False(t, h.Seen.Before(h.Since))
			free(t, held)
		})
	}
}

// A process names what it gives to others: its name, and neither its host nor its number if it is anonymous.
func TestHeldBy_ANamedOrAnonymousProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, of := range map[string]struct {
		opts lockrt.Options
		says string
	}{
		"named":               {lockrt.Options{Name: "billing"}, fmt.Sprintf("billing, %s, pid %d", host, os.Getpid())},
		"anonymous":           {lockrt.Options{Anonymous: true}, "process ID"},
		"named and anonymous": {lockrt.Options{Name: "billing", Anonymous: true}, "billing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			holder, waiter := clientOf(t, server.URL(), of.opts), newTracer(t, server.URL())
			held := ok(t)(holder.Mutex(key).Lock(patient(t)))
			audible(t, server, holder)
			says := of.says
			if says == "process ID" {
				says = "process " + holder.ID()
			}
			err := waiter.gives(waiter.c.Mutex(key), key)
			require.Regexp(t, `\(held by `+regexp.QuoteMeta(says)+`, since `+dayTime+`, seen at `+dayTime+`\)$`, err.Error())
			if of.opts.Anonymous {
				require.NotContains(t, err.Error(), "pid")
				require.Empty(t, holderIn(t, err, key).Process.Host)
			}
			free(t, held)
		})
	}
}

// Of a process that is gone, and of a program with Redisson, the name of the owner in Redis is known.
func TestHeldBy_AnOwnerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for owner, says := range map[string]string{
		"11111111-2222-8333-8444-555555555555:7": "process 11111111-2222-8333-8444-555555555555",
		"11111111-2222-4333-8444-555555555555:7": "owner 11111111-2222-4333-8444-555555555555:7",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			require.NoError(t, server.Do("HSET", key, owner, "1").Error())
			t.Cleanup(func() { server.Do("DEL", key) })
			waiter := newTracer(t, server.URL())
			err := waiter.gives(waiter.c.Mutex(key), key)
			require.Regexp(t, `\(held by `+says+`, seen at `+dayTime+`\)$`, err.Error())
			require.Equal(t, owner, holderIn(t, err, key).Owner)
		})
	}
}

// A reader that waits because a writer is before it is kept from the lock by no other reader, and names none.
func TestHeldBy_NoOtherReader(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	hooks, waits, _ := watch()
	holder, writer, waiter := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}), newTracer(t, server.URL())
	held := ok(t)(holder.RWMutex(key).RLock(patient(t)))
	audible(t, server, holder)
	got := lockLater(patient(t), writer.RWMutex(key))
	receive(t, waits, "the writer")
	require.Nil(t, holderIn(t, waiter.gives(waiter.c.RWMutex(key).RLocker(), key), key))
	free(t, held)
	free(t, gotten(t, got, "the writer"))
}

// A call that has looked for a deadlock knows the process of the holder.
func TestHeldBy_AfterALookForADeadlock(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	holder, waiter := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{DeadlockAfter: 200 * time.Millisecond})
	held := ok(t)(holder.Mutex(key).Lock(patient(t)))
	outer := ok(t)(waiter.Mutex(key + ":outer").Lock(patient(t)))
	atBest(t, "the error comes while what was found is young enough", func() bool {
		ctx, cancel := context.WithCancel(outer.Context())
		defer cancel()
		got := lockLater(ctx, waiter.Mutex(key))
		until(t, "the holder is found", func() bool { return lockrt.KnowsHolder(waiter, key) })
		cancel()
		err := receive(t, got, "the call").err
		require.ErrorIs(t, err, context.Canceled)
		h := holderIn(t, err, key)
		if h == nil {
			return false
		}
		require.Equal(t, holder.ID(), h.Process.ID)
		require.Regexp(t, `\(held by process `+holder.ID()+`, seen at `+dayTime+`\)$`, err.Error())
		return true
	})
	free(t, outer, held)
}

// Errors that are about no holder name none.
func TestHeldBy_Nobody(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	held := ok(t)(c.Mutex(key).Lock(patient(t)))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.Mutex(key).Lock(over)
	require.Nil(t, holderIn(t, err, key), "the call has not looked")
	_, err = c.Mutex(key).Lock(patient(t), lockrt.WithWait(-time.Second))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.Nil(t, holderIn(t, err, key))
	_, err = other.Mutex(key).TryLock(patient(t))
	require.EqualError(t, err, fmt.Sprintf("lockgen: try lock %q: not acquired", key), "and asks nobody")
	require.Nil(t, holderIn(t, err, key))
	free(t, held)
	err = held.Unlock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrReleased)
	require.Nil(t, holderIn(t, err, key))
}

func TestHolder_String(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 23, 14, 2, 11, 0, time.Local)
	seen := since.Add(2 * time.Second)
	host := lockrt.Process{ID: "id", Host: "host-a", PID: 4211}
	for want, h := range map[string]lockrt.Holder{
		"held by another process":                                               {},
		"held by this process":                                                  {Own: true, Process: host, Seen: seen},
		"held by this process, since 14:02:11":                                  {Own: true, Since: since, Seen: seen},
		"held by host-a, pid 4211, since 14:02:11, seen at 14:02:13":            {Process: host, Owner: "o", Since: since, Seen: seen},
		"held by host-a, pid 4211, since 2026-11-23 14:02:11, seen at 14:02:13": {Process: host, Since: since, Seen: seen.AddDate(0, 0, 1)},
		"held by billing, host-a, since 14:02:11, seen at 14:02:11":             {Process: lockrt.Process{Name: "billing", Host: "host-a"}, Since: since, Seen: since},
		"held by billing, seen at 14:02:13":                                     {Process: lockrt.Process{ID: "id", Name: "billing"}, Seen: seen},
		"held by process id, seen at 14:02:13":                                  {Process: lockrt.Process{ID: "id"}, Owner: "id:7", Seen: seen},
		"held by owner id:7, seen at 14:02:13":                                  {Owner: "id:7", Seen: seen},
	} {
		require.Equal(t, want, h.String())
	}
}
