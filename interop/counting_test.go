package interop

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func (f *fleet) counts(t *testing.T) {
	f.cell(t, "semaphore", "both count the same permits", func(t *testing.T) string {
		key := aKey(t, "k")
		s := f.c.Semaphore(key, 0)
		require.Equal(t, "true", f.java.do(t, "semaphoreSet", key, "5"))
		set, err := s.TrySetPermits(soon(t), 7, 0)
		require.NoError(t, err)
		require.False(t, set)
		require.NoError(t, s.Acquire(soon(t), 3))
		require.Equal(t, "2", f.java.do(t, "semaphoreAvailable", key))
		require.Equal(t, "false", f.java.do(t, "semaphoreTry", key, "3"))
		f.java.do(t, "semaphoreAcquire", key, "2")
		require.ErrorIs(t, s.TryAcquire(soon(t), 1), lockrt.ErrNotAcquired)
		f.java.do(t, "semaphoreRelease", key, "4") // also the permits that Go took
		n, err := s.Available(soon(t))
		require.NoError(t, err)
		require.Equal(t, 4, n)
		f.java.do(t, "semaphoreAdd", key, "2")
		changed, err := s.Resize(soon(t), -1)
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, "5", f.java.do(t, "semaphoreDrain", key))
		n, err = s.Available(soon(t))
		require.NoError(t, err)
		require.Zero(t, n)
		return "set, taken, released, added and drained by either"
	})
}

func (f *fleet) permits(t *testing.T) {
	if !f.at("3.17.0") {
		return // its ids have another form
	}
	// The features of Redisson's permits.
	counts, leases := f.at("3.19.1"), f.at("3.41.0")
	f.cell(t, "permits", "taken in Go, released in Java", func(t *testing.T) string {
		key := aKey(t, "k")
		s := f.c.PermitSemaphore(key, 0)
		set, err := s.TrySetPermits(soon(t), 2, 0)
		require.NoError(t, err)
		require.True(t, set)
		permit, err := s.Acquire(soon(t))
		require.NoError(t, err)
		require.Equal(t, "1", f.java.do(t, "permitAvailable", key))
		if counts {
			require.Equal(t, "1", f.java.do(t, "permitAcquired", key))
			require.Equal(t, "2", f.java.do(t, "permitTotal", key))
		}
		if leases {
			left, err := strconv.ParseInt(f.java.do(t, "permitLease", key, permit.PermitID()), 10, 64)
			require.NoError(t, err)
			require.InDelta(t, long.Milliseconds(), left, float64(long.Milliseconds())/2)
		}
		f.java.do(t, "permitRelease", key, permit.PermitID())
		select {
		case <-permit.Context().Done():
		case <-soon(t).Done():
			t.Fatal("the holder is not told")
		}
		require.ErrorIs(t, permit.Release(soon(t)), lockrt.ErrLost)
		require.Equal(t, "2", f.java.do(t, "permitAvailable", key), "it is back once")
		return "its Go holder has lost it"
	})
	f.cell(t, "permits", "taken in Java, released in Go", func(t *testing.T) string {
		key := aKey(t, "k")
		s := f.c.PermitSemaphore(key, 0)
		require.Equal(t, "true", f.java.do(t, "permitSet", key, "2"))
		id := f.java.do(t, "permitAcquire", key, "0")
		n, err := s.Acquired(soon(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		there, err := s.UpdateLease(soon(t), id, time.Minute)
		require.NoError(t, err)
		require.True(t, there)
		left, err := s.TTL(soon(t), id)
		require.NoError(t, err)
		require.InDelta(t, time.Minute, left, float64(10*time.Second))
		require.Equal(t, "true", f.java.do(t, "permitUpdate", key, id, millis(2*time.Minute)))
		left, err = s.TTL(soon(t), id)
		require.NoError(t, err)
		require.InDelta(t, 2*time.Minute, left, float64(10*time.Second))
		require.NoError(t, s.Release(soon(t), id))
		require.ErrorIs(t, s.Release(soon(t), id), lockrt.ErrLost)
		require.Contains(t, f.java.fails(t, "permitRelease", key, id), "IllegalArgument")
		n, err = s.Available(soon(t))
		require.NoError(t, err)
		require.Equal(t, 2, n, "it is back once")
		return "release() in Java throws IllegalArgumentException then"
	})
	f.cell(t, "permits", "held in Go for a fixed time, prolonged in Java", func(t *testing.T) string {
		const longer = 3 * short
		var (
			key          string
			told, trusts *lockrt.Permit // one asks Redis, the other does not
			s            *lockrt.PermitSemaphore
			prolonged    time.Time
		)
		// prolong makes Java prolong a permit of Go, and reports whether the machine was fast
		// enough.
		prolong := func() bool {
			key = aKey(t, "k")
			s = f.c.PermitSemaphore(key, 2)
			var err error
			told, err = s.Acquire(soon(t), lockrt.WithLease(short))
			require.NoError(t, err)
			trusts, err = s.Acquire(soon(t), lockrt.WithLease(short))
			require.NoError(t, err)
			prolonged = time.Now()
			for _, permit := range []*lockrt.Permit{told, trusts} {
				if f.java.do(t, "permitUpdate", key, permit.PermitID(), millis(longer)) != "true" {
					return false
				}
			}
			left, err := s.TTL(soon(t), told.PermitID())
			require.NoError(t, err)
			require.Greater(t, left, short, "as Java says")
			return told.Err() == nil
		}
		for patient := soon(t); !prolong(); {
			require.NoError(t, patient.Err(), "Java comes too late each time")
		}
		inGo := begin(soon(t), permitRole.inGo(f.side), key)
		inJava := f.java.thread("prolonged").start("permitAcquire", key, "0")
		ended(t, trusts.Context()) // which knows only its own grant
		require.ErrorIs(t, trusts.Err(), lockrt.ErrLost)
		require.Less(t, time.Since(prolonged), longer, "at the old end")
		require.NoError(t, told.Err(), "a caller that asks learns that it lasts")
		ended(t, told.Context())
		require.Greater(t, time.Since(prolonged), short, "at the new end")
		g := served(t, inGo)
		require.Greater(t, g.at.Sub(prolonged), longer-50*time.Millisecond, "the permits live on past their old end")
		got := <-inJava
		require.NoError(t, got.err)
		require.Greater(t, got.ended.Sub(prolonged), longer-50*time.Millisecond)
		require.NoError(t, g.release(soon(t)))
		f.java.do(t, "permitRelease", key, got.text)
		require.Equal(t, "2", f.java.do(t, "permitAvailable", key), "each is back once")
		return fmt.Sprintf("from %s to %s; others served after %s in Go, %s in Java", short, longer,
			round(g.at.Sub(prolonged)), round(got.ended.Sub(prolonged)))
	})
}

// many checks permits that are acquired and released several at a time.
func (f *fleet) many(t *testing.T) {
	if !f.at("3.51.0") {
		return // a waiter for several permits is not always woken
	}
	f.cell(t, "permits", "several at a time, both wait for the other's", func(t *testing.T) string {
		key := aKey(t, "k")
		s := f.c.PermitSemaphore(key, 3)
		inGo, err := s.AcquireN(soon(t), 2)
		require.NoError(t, err)
		inJava := f.java.start("permitAcquireMany", key, "2") // one of which is available
		f.java.parked(t)
		require.NoError(t, inGo.Release(soon(t)))
		got := <-inJava
		require.NoError(t, got.err)
		require.Equal(t, "1", f.java.thread("asks").do(t, "permitAvailable", key))
		done := begin(soon(t), func(ctx context.Context, _ string) (release, error) {
			permit, err := s.AcquireN(ctx, 2)
			if err != nil {
				return nil, err
			}
			return permit.Release, nil
		}, key)
		f.listening(t, "redisson_sc:{"+key+"}")
		waiting(t, done)
		f.java.do(t, "permitReleaseMany", key, got.text)
		g := served(t, done)
		require.Equal(t, "1", f.java.do(t, "permitAvailable", key))
		require.NoError(t, g.release(soon(t)))
		require.Equal(t, "3", f.java.do(t, "permitAvailable", key))
		return "two of three, each way round"
	})
}

func (f *fleet) latches(t *testing.T) {
	f.cell(t, "latch", "both count down", func(t *testing.T) string {
		key := aKey(t, "k")
		latch := f.c.CountDownLatch(key)
		require.Equal(t, "true", f.java.do(t, "latchSet", key, "4"))
		inGo := begin(soon(t), awaitRole.inGo(f.side), key)
		inJava := begin(soon(t), awaitRole.inJava(f.java.thread("awaits")), key)
		for left := 3; left >= 0; left-- {
			if left%2 == 0 {
				n, err := latch.CountDown(soon(t))
				require.NoError(t, err)
				require.Equal(t, left, n)
			} else {
				f.java.do(t, "latchDown", key)
			}
			require.Equal(t, strconv.Itoa(left), f.java.do(t, "latchCount", key))
			n, err := latch.Count(soon(t))
			require.NoError(t, err)
			require.Equal(t, left, n)
		}
		served(t, inGo)
		served(t, inJava)
		return "both go on at zero"
	})
	f.cell(t, "latch", "deleted in Java, Go is told", func(t *testing.T) string {
		key := aKey(t, "k")
		f.java.do(t, "latchSet", key, "1")
		before := f.commands("get")
		done := begin(soon(t), awaitRole.inGo(f.side), key)
		f.listening(t, "redisson_countdownlatch__channel__{"+key+"}")
		f.soon(t, func() bool { return f.commands("get") > before }, "it does not see the latch")
		deleted := time.Now()
		require.Equal(t, "true", f.java.do(t, "latchDelete", key))
		g := <-done
		require.ErrorIs(t, g.err, lockrt.ErrDeleted)
		return "ErrDeleted after " + round(g.at.Sub(deleted)).String()
	})
}
