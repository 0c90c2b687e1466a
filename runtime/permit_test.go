package lockrt_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// short is a lease of fixed length that a test waits for.
const short = 300 * time.Millisecond

// ms writes a time as Redisson's scripts take it.
func ms(n int64) string { return strconv.FormatInt(n, 10) }

// strangers takes permits as a Java program does, that expire at the given time, and returns their ids.
func strangers(t *testing.T, s *lockrt.PermitSemaphore, until time.Time, n int) (ids []string) {
	t.Helper()
	server := redistest.Shared(t)
	for range n {
		raw := make([]byte, 16)
		_, _ = rand.Read(raw)
		server.Do("DECRBY", s.Key(), "1")
		server.Do("ZADD", "{"+s.Key()+"}:timeout", ms(until.UnixMilli()), string(raw))
		ids = append(ids, hex.EncodeToString(raw))
	}
	return ids
}

func requireCounts(t *testing.T, s *lockrt.PermitSemaphore, available, acquired int) {
	t.Helper()
	requireAvailable(t, available, s)
	n, err := s.Acquired(patient(t))
	require.NoError(t, err)
	require.Equal(t, acquired, n)
	n, err = s.Total(patient(t))
	require.NoError(t, err)
	require.Equal(t, available+acquired, n)
}

// expired waits until a permit has expired by Redis' clock.
func expired(t *testing.T, s *lockrt.PermitSemaphore, id string) {
	t.Helper()
	until(t, "the permit expires", func() bool {
		_, err := s.TTL(patient(t), id)
		return errors.Is(err, lockrt.ErrLost)
	})
}

func newPermits(t *testing.T, n int) *lockrt.PermitSemaphore {
	t.Helper()
	return newClient(t, lockrt.Options{}).PermitSemaphore(redistest.Key(t, "p"), n)
}

func permit(t *testing.T, s *lockrt.PermitSemaphore, n int, opts ...lockrt.LockOption) *lockrt.Permit {
	t.Helper()
	p, err := s.AcquireN(patient(t), n, opts...)
	require.NoError(t, err)
	return p
}

// permitLater acquires in another goroutine and returns where the permit comes.
func permitLater(ctx context.Context, s *lockrt.PermitSemaphore, n int, opts ...lockrt.LockOption) <-chan granted {
	got := make(chan granted, 1)
	go func() {
		p, err := s.AcquireN(ctx, n, opts...)
		got <- granted{p, err}
	}()
	return got
}

type granted struct {
	*lockrt.Permit
	err error
}

// A Permit has no id that was released by itself, and after its end those that it had then.
func TestPermit_IDsAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 3)
	p := permit(t, s, 3)
	ids := p.PermitIDs()
	require.NoError(t, s.Release(patient(t), ids[0]))
	require.Equal(t, ids[1:], p.PermitIDs())
	require.NoError(t, s.Release(patient(t), ids[1:]...))
	require.ErrorIs(t, p.Err(), lockrt.ErrLost)
	require.Equal(t, ids[1:], p.PermitIDs())
	require.Equal(t, ids[1], p.PermitID())
	require.ErrorIs(t, p.Release(patient(t)), lockrt.ErrLost)
	require.Equal(t, ids[1], p.PermitID())
}

// A PermitSemaphore that was made with 0 permits exists once SetPermits, TrySetPermits or Resize has created it.
func TestPermitSemaphore_Creators(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(s *lockrt.PermitSemaphore) error{
		"SetPermits":    func(s *lockrt.PermitSemaphore) error { return s.SetPermits(patient(t), 2) },
		"TrySetPermits": func(s *lockrt.PermitSemaphore) error { _, err := s.TrySetPermits(patient(t), 2, 0); return err },
		"Resize":        func(s *lockrt.PermitSemaphore) error { _, err := s.Resize(patient(t), 2); return err },
	} {
		s := newPermits(t, 0)
		_, err := s.TryAcquire(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		require.NoError(t, create(s), name)
		total, err := s.Total(patient(t))
		require.NoError(t, err)
		require.Equal(t, 2, total, name)
	}
}

func TestRedisson_Permit_GetInClusterNameMapper(t *testing.T) {
	t.Parallel()
	// Every key of one semaphore is in its slot, with a hash tag in the name and without.
	server := redistest.Shared(t)
	c := newClient(t, lockrt.Options{})
	for _, key := range []string{redistest.Key(t, "p"), "{" + redistest.Key(t, "tag") + "}p"} {
		p := permit(t, c.PermitSemaphore(key, 1), 1)
		keys, err := server.Do("KEYS", "*"+key+"*").AsStrSlice()
		require.NoError(t, err)
		require.Len(t, keys, 3)
		for _, k := range keys {
			require.Equal(t, hashed(key), hashed(k), k)
		}
		require.NoError(t, p.Release(t.Context()))
	}
}

// hashed returns the part of a key by which a cluster finds its slot.
func hashed(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func TestRedisson_Permit_UpdateLeaseTime(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	ok, err := s.UpdateLease(patient(t), "00112233445566778899aabbccddeeff", time.Minute)
	require.NoError(t, err)
	require.False(t, ok, "there is none")
	p := permit(t, s, 1, lockrt.WithLease(time.Hour))
	for _, d := range []time.Duration{time.Minute, 2 * time.Hour, 2 * time.Second} {
		ok, err = s.UpdateLease(patient(t), p.PermitID(), d)
		require.NoError(t, err)
		require.True(t, ok)
		left, err := s.TTL(patient(t), p.PermitID())
		require.NoError(t, err)
		require.LessOrEqual(t, left, d)
		require.Greater(t, left, d-patience)
	}
	expired(t, s, p.PermitID())
	ok, err = s.UpdateLease(patient(t), p.PermitID(), time.Minute)
	require.NoError(t, err)
	require.False(t, ok, "it has expired")
	requireCounts(t, s, 1, 0)
	require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
}

func TestRedisson_Permit_NotExistent(t *testing.T) {
	t.Parallel()
	requireCounts(t, newPermits(t, 0), 0, 0)
}

// permitsAcross reads a number while permits are taken, some for a short time, and released.
func permitsAcross(t *testing.T, read func(s *lockrt.PermitSemaphore) (int, error), start, taken, expiredBy, end int) {
	t.Helper()
	s := newPermits(t, 10)
	requireRead := func(want int) {
		t.Helper()
		n, err := read(s)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.NoError(t, s.SetPermits(t.Context(), 10))
	requireRead(start)
	fixed := permit(t, s, 2, lockrt.WithLease(5*time.Second))
	held := permit(t, s, 3)
	requireRead(taken)
	expired(t, s, fixed.PermitID())
	requireRead(expiredBy)
	require.NoError(t, held.Release(t.Context()))
	requireRead(end)
}

func TestRedisson_Permit_AvailablePermits(t *testing.T) {
	t.Parallel()
	permitsAcross(t, func(s *lockrt.PermitSemaphore) (int, error) { return s.Available(patient(t)) }, 10, 5, 7, 10)
}

func TestRedisson_Permit_AcquiredPermits(t *testing.T) {
	t.Parallel()
	permitsAcross(t, func(s *lockrt.PermitSemaphore) (int, error) { return s.Acquired(patient(t)) }, 0, 5, 3, 0)
}

func TestRedisson_Permit_GetPermits(t *testing.T) {
	t.Parallel()
	permitsAcross(t, func(s *lockrt.PermitSemaphore) (int, error) { return s.Total(patient(t)) }, 10, 10, 10, 10)
}

func TestRedisson_Permit_Expiration(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s := newPermits(t, 0)
	_, err := s.TrySetPermits(t.Context(), 3, 5*time.Second)
	require.NoError(t, err)
	p := permit(t, s, 1)
	gone(t, server, s.Key())
	gone(t, server, "{"+s.Key()+"}:timeout")
	requireCounts(t, s, 0, 0)
	require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
}

// No permit outlives its semaphore, and its holder knows that before another one can have it.
func TestPermits_EndWithTheirSemaphore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts   []lockrt.LockOption
		longer func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error
	}{
		"renewed":  {},
		"fixed":    {opts: []lockrt.LockOption{lockrt.WithLease(time.Hour)}},
		"extended": {longer: func(_ *lockrt.PermitSemaphore, p *lockrt.Permit) error { return p.Extend(t.Context(), time.Hour) }},
		"updated": {opts: []lockrt.LockOption{lockrt.WithLease(time.Minute)}, longer: func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error {
			_, err := s.UpdateLease(t.Context(), p.PermitID(), time.Hour)
			return err
		}},
		"asked": {opts: []lockrt.LockOption{lockrt.WithLease(time.Hour)}, longer: func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error {
			_, err := s.TTL(t.Context(), p.PermitID())
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			s := newPermits(t, 0)
			created, err := s.TrySetPermits(t.Context(), 1, 3*time.Second)
			require.NoError(t, err)
			require.True(t, created)
			dies := time.Now().Add(3 * time.Second) // at the latest
			p := permit(t, s, 1, test.opts...)
			if test.longer != nil {
				require.NoError(t, test.longer(s, p))
			}
			require.False(t, p.Until().After(dies), "it is trusted for %v longer than the semaphore exists", p.Until().Sub(dies))
			receive(t, p.Context().Done(), "the loss")
			require.ErrorIs(t, p.Err(), lockrt.ErrLost)
			require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
			gone(t, server, s.Key())
		})
	}
}

// A semaphore has as many permits as before when somebody has deleted the key of the free ones, or the server has evicted it: those that are
// taken count.
func TestPermits_TheirNumberIsTheSameAfterTheKeyOfTheFreeOnesWasDeleted(t *testing.T) {
	t.Parallel()
	const inAll = 3
	for name, ends := range map[string]func(t *testing.T, server *redistest.RedisServer, s *lockrt.PermitSemaphore, p *lockrt.Permit){
		"released": func(t *testing.T, _ *redistest.RedisServer, _ *lockrt.PermitSemaphore, p *lockrt.Permit) {
			require.NoError(t, p.Release(patient(t)))
		},
		"released by id": func(t *testing.T, _ *redistest.RedisServer, s *lockrt.PermitSemaphore, p *lockrt.Permit) {
			require.NoError(t, s.Release(patient(t), p.PermitIDs()...))
		},
		"taken by force": func(t *testing.T, server *redistest.RedisServer, _ *lockrt.PermitSemaphore, p *lockrt.Permit) {
			had, err := clientOf(t, server.URL(), lockrt.Options{}).ForceUnlock(patient(t), "jobs", p.PermitIDs()...)
			require.NoError(t, err)
			require.True(t, had)
		},
		"expired": func(t *testing.T, server *redistest.RedisServer, s *lockrt.PermitSemaphore, p *lockrt.Permit) {
			for _, id := range p.PermitIDs() {
				raw, err := hex.DecodeString(id)
				require.NoError(t, err)
				server.Do("ZADD", "{jobs}:timeout", "1", string(raw))
				expired(t, s, id)
			}
		},
	} {
		for _, n := range []int{1, inAll} {
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				a, b := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
				s, other := a.PermitSemaphore("jobs", inAll), b.PermitSemaphore("jobs", inAll)

				before := permit(t, s, n)
				server.Do("DEL", "jobs")
				requireCounts(t, other, inAll-n, n)
				_, err := other.TryAcquireN(patient(t), inAll-n+1)
				require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the holder has the rest")
				requireCounts(t, other, inAll-n, n)
				ends(t, server, s, before)
				requireCounts(t, other, inAll, 0)

				before = permit(t, s, n)
				server.Do("DEL", "jobs")
				ends(t, server, s, before)
				requireCounts(t, other, inAll, 0)

				before = permit(t, s, n)
				server.Do("DEL", "jobs")
				created, err := other.TrySetPermits(patient(t), inAll, 0)
				require.NoError(t, err)
				require.True(t, created)
				requireCounts(t, other, inAll-n, n)
				ends(t, server, s, before)
				requireCounts(t, other, inAll, 0)
				all := permit(t, other, inAll)
				requireCounts(t, other, 0, inAll)
				require.NoError(t, all.Release(patient(t)))
				requireCounts(t, other, inAll, 0)
			})
		}
	}
}

// A client that does not know how many permits there are takes none for available when the key of the free ones was deleted, and not fewer.
func TestPermits_NoneIsAvailableWhileThereIsNoSemaphore(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := clientOf(t, server.URL(), lockrt.Options{}).PermitSemaphore("jobs", 0)
	require.NoError(t, s.SetPermits(patient(t), 3))
	p := permit(t, s, 2)
	server.Do("DEL", "jobs")
	requireCounts(t, s, 0, 2)
	require.NoError(t, p.Release(patient(t)))
	requireCounts(t, s, 2, 0)
}

// Taken permits that end with their semaphore count, too, when its key was deleted: the next one ends when it would have ended.
func TestPermits_TheirNumberIsTheSameAfterASemaphoreForATimeWasDeleted(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := clientOf(t, server.URL(), lockrt.Options{}).PermitSemaphore("jobs", 3)
	_, err := s.TrySetPermits(patient(t), 3, time.Hour)
	require.NoError(t, err)
	before := permit(t, s, 2)
	server.Do("DEL", "jobs")
	_, err = s.TryAcquireN(patient(t), 2)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the holder has the rest")
	requireCounts(t, s, 1, 2)
	require.NoError(t, before.Release(patient(t)))
	requireCounts(t, s, 3, 0)
	after := permit(t, s, 3)
	for _, key := range []string{"jobs", "{jobs}:timeout"} {
		left, err := server.Do("PTTL", key).AsInt64()
		require.NoError(t, err)
		require.Positive(t, left, key)
	}
	require.NoError(t, after.Release(patient(t)))
}

func TestRedisson_Permit_Expire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	s := newPermits(t, 1)
	other := newClient(t, lockrt.Options{Hooks: hooks}).PermitSemaphore(s.Key(), 1)
	require.NoError(t, s.SetPermits(t.Context(), 1))
	dies := time.Now().Add(4 * time.Second)
	strangers(t, s, dies, 1)
	got := permitLater(patient(t), other, 1)
	receive(t, waiting, "the other to wait")
	p := receive(t, got, "the permit of the one that died")
	require.NoError(t, p.err)
	require.WithinRange(t, time.Now(), dies.Add(-time.Millisecond), dies.Add(late))
	require.NoError(t, p.Release(t.Context()))
	requireCounts(t, s, 1, 0)
}

func TestRedisson_Permit_ExpireTryAcquire(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	old := permit(t, s, 1, lockrt.WithLease(short))
	p, err := s.Acquire(patient(t), lockrt.WithWait(patience))
	require.NoError(t, err)
	require.ErrorIs(t, s.Release(t.Context(), old.PermitID()), lockrt.ErrLost, "the old id is of no use")
	require.ErrorIs(t, old.Release(t.Context()), lockrt.ErrLost)
	requireCounts(t, s, 0, 1)
	require.NoError(t, p.Release(t.Context()))
}

func TestRedisson_Permit_TrySetPermits(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	for i, want := range []bool{true, false} {
		created, err := s.TrySetPermits(t.Context(), 10+i, 0)
		require.NoError(t, err)
		require.Equal(t, want, created)
		requireCounts(t, s, 10, 0)
	}
}

func TestRedisson_Permit_SetPermits(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	require.NoError(t, s.SetPermits(t.Context(), 15))
	requireCounts(t, s, 15, 0)
	require.NoError(t, s.SetPermits(t.Context(), 5))
	requireCounts(t, s, 5, 0)
	p := permit(t, s, 5)
	require.NoError(t, s.SetPermits(t.Context(), 2))
	requireCounts(t, s, -3, 5)
	_, err := s.TryAcquire(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, p.Release(t.Context()))
	requireCounts(t, s, 2, 0)
}

func TestRedisson_Permit_AddPermits(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	_, err := s.TrySetPermits(t.Context(), 10, 0)
	require.NoError(t, err)
	for _, step := range []struct{ delta, want int }{{5, 15}, {-10, 5}, {-7, -2}} {
		exists, err := s.Resize(t.Context(), step.delta)
		require.NoError(t, err)
		require.True(t, exists)
		requireCounts(t, s, step.want, 0)
	}
}

func TestRedisson_Permit_BlockingAcquire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	s := newPermits(t, 1)
	p := permit(t, s, 1)
	require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{32}$`), p.PermitID())
	other := newClient(t, lockrt.Options{Hooks: hooks}).PermitSemaphore(s.Key(), 1)
	got := permitLater(patient(t), other, 1)
	receive(t, waiting, "the other to wait")
	require.NoError(t, p.Release(t.Context()))
	next := receive(t, got, "the permit")
	require.NoError(t, next.err)
	require.NotEqual(t, p.PermitID(), next.PermitID())
	require.NoError(t, next.Release(t.Context()))
}

func TestRedisson_Permit_BlockingAcquireMany(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	s := newPermits(t, 5)
	first, second := permit(t, s, 2), permit(t, s, 1)
	other := newClient(t, lockrt.Options{Hooks: hooks}).PermitSemaphore(s.Key(), 5)
	got := permitLater(patient(t), other, 4)
	receive(t, waiting, "the other to wait")
	require.NoError(t, second.Release(t.Context()))
	requireNothing(t, got)
	require.NoError(t, first.Release(t.Context()))
	p := receive(t, got, "four permits")
	require.NoError(t, p.err)
	require.Len(t, p.PermitIDs(), 4)
	require.NoError(t, p.Release(t.Context()))
	requireCounts(t, s, 5, 0)
}

func TestRedisson_Permit_TryAcquire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	s := newClient(t, lockrt.Options{Hooks: hooks}).PermitSemaphore(redistest.Key(t, "p"), 1)
	p, err := s.TryAcquire(patient(t))
	require.NoError(t, err)
	_, err = s.TryAcquire(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	_, err = s.Acquire(patient(t), lockrt.WithWait(3*time.Second))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	receive(t, waiting, "the one in vain")
	got := permitLater(patient(t), s, 1, lockrt.WithWait(patience))
	receive(t, waiting, "it to wait")
	require.NoError(t, p.Release(t.Context()))
	next := receive(t, got, "the permit")
	require.NoError(t, next.err)
	require.NoError(t, next.Release(t.Context()))
}

func TestRedisson_Permit_TryAcquireMany(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 10)
	var all []*lockrt.Permit
	for _, n := range []int{4, 5} {
		p, err := s.TryAcquireN(patient(t), n)
		require.NoError(t, err)
		require.Len(t, p.PermitIDs(), n)
		all = append(all, p)
	}
	_, err := s.TryAcquireN(patient(t), 2)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	for _, p := range all {
		require.NoError(t, p.Release(t.Context()))
	}
	requireCounts(t, s, 10, 0)
}

func TestRedisson_Permit_ReleaseWithoutPermits(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	require.ErrorIs(t, s.Release(t.Context(), "00112233445566778899aabbccddeeff"), lockrt.ErrLost)
	require.EqualError(t, s.Release(t.Context(), "1234"),
		`lockgen: release "`+s.Key()+`": unusable option: the permit id "1234" is not 32 hexadecimal digits`)
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", s.Key()))
}

func TestRedisson_Permit_ReleaseExpired(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	p := permit(t, s, 1, lockrt.WithLease(short))
	expired(t, s, p.PermitID())
	require.ErrorIs(t, s.Release(t.Context(), p.PermitID()), lockrt.ErrLost)
	requireCounts(t, s, 1, 0)
}

// permitConcurrency has a crowd take turns at a semaphore, and checks that all permits are there in the end.
func permitConcurrency(t *testing.T, clients, goroutines, rounds, permits int) {
	t.Helper()
	key := redistest.Key(t, "p")
	crowd(t, clients, goroutines, rounds, permits, func(c *lockrt.Client) (func() error, error) {
		p, err := c.PermitSemaphore(key, permits).Acquire(patient(t))
		return func() error { return p.Release(context.Background()) }, err
	})
	requireCounts(t, newClient(t, lockrt.Options{}).PermitSemaphore(key, 0), permits, 0)
}

func TestRedisson_Permit_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	permitConcurrency(t, 1, 25, 4, 1)
}

func TestRedisson_Permit_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	permitConcurrency(t, 8, 2, 25, 1)
}

func TestPermit_NoMoreInsideThanThereArePermits(t *testing.T) {
	t.Parallel()
	permitConcurrency(t, 4, 8, 20, 3)
}

func TestRedisson_Permit_Acquire(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 2)
	p := permit(t, s, 1, lockrt.WithLease(time.Minute))
	require.NoError(t, p.Err())
	require.WithinRange(t, p.Until(), time.Now().Add(30*time.Second), time.Now().Add(time.Minute))
	require.NoError(t, p.Release(t.Context()))
}

func TestRedisson_Permit_Release(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 2)
	p := permit(t, s, 1)
	require.NoError(t, s.Release(t.Context(), p.PermitID()))
	require.ErrorIs(t, s.Release(t.Context(), p.PermitID()), lockrt.ErrLost, "twice")
	requireCounts(t, s, 2, 0)
}

// Several that are taken at once are one Permit here.
func TestRedisson_Permit_AcquireAsyncMany(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 5)
	first := receive(t, permitLater(patient(t), s, 3), "three permits")
	require.NoError(t, first.err)
	require.Len(t, first.PermitIDs(), 3)
	requireCounts(t, s, 2, 3)
	got := permitLater(patient(t), s, 3)
	require.NoError(t, first.Release(t.Context()))
	second := receive(t, got, "three permits more")
	require.NoError(t, second.err)
	require.NotSubset(t, first.PermitIDs(), second.PermitIDs())
	require.NoError(t, second.Release(t.Context()))
}

func TestRedisson_Permit_ReleaseAsyncMany(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 10)
	redistest.Shared(t).Do("SET", s.Key(), "10")
	ids := strangers(t, s, time.Now().Add(time.Hour), 6)
	requireCounts(t, s, 4, 6)
	require.NoError(t, s.Release(t.Context(), append(ids, strings.ToUpper(ids[0]), ids[1])...), "each id counts once")
	require.ErrorIs(t, s.Release(t.Context(), ids...), lockrt.ErrLost, "twice")
	require.NoError(t, s.Release(t.Context()), "none")
	requireCounts(t, s, 10, 0)
}

// Redisson reports no error for permits whose leases are over. Here the release fails, and the permits are back all the same.
func TestRedisson_Permit_ReleaseManyExpiredDoesNotThrow(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	redistest.Shared(t).Do("SET", s.Key(), "10")
	over := strangers(t, s, time.Now().Add(-time.Second), 3)
	require.ErrorIs(t, s.Release(t.Context(), over...), lockrt.ErrLost)
	requireCounts(t, s, 10, 0)
}

func TestRedisson_Permit_TryReleaseManyExpired(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	redistest.Shared(t).Do("SET", s.Key(), "10")
	valid := strangers(t, s, time.Now().Add(time.Hour), 3)
	over := strangers(t, s, time.Now().Add(-time.Second), 3)
	require.NoError(t, s.Release(t.Context(), valid...))
	require.ErrorIs(t, s.Release(t.Context(), over...), lockrt.ErrLost)
	requireCounts(t, s, 10, 0)
}

func TestRedisson_Permit_ReleaseManyNotExistOrExpired(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 0)
	redistest.Shared(t).Do("SET", s.Key(), "10")
	valid := strangers(t, s, time.Now().Add(time.Hour), 3)
	over := strangers(t, s, time.Now().Add(-time.Second), 1)
	for _, more := range []string{over[0], "00112233445566778899aabbccddeeff"} {
		require.ErrorIs(t, s.Release(t.Context(), append(slices.Clone(valid), more)...), lockrt.ErrLost)
	}
	requireCounts(t, s, 7, 3)
	require.NoError(t, s.Release(t.Context(), valid...))
	requireCounts(t, s, 10, 0)
}

func TestRedisson_Permit_GetLeaseTime(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	_, err := s.TTL(patient(t), "00112233445566778899aabbccddeeff")
	require.ErrorIs(t, err, lockrt.ErrLost)
	p := permit(t, s, 1, lockrt.WithLease(time.Minute))
	left, err := s.TTL(patient(t), p.PermitID())
	require.NoError(t, err)
	require.Positive(t, left)
	require.LessOrEqual(t, left, time.Minute)
	ok, err := s.UpdateLease(patient(t), p.PermitID(), lockrt.UntilDone)
	require.NoError(t, err)
	require.True(t, ok)
	left, err = s.TTL(patient(t), p.PermitID())
	require.NoError(t, err)
	require.Negative(t, left)
	require.NoError(t, p.Release(t.Context()))
}

// A Java program can have permits last for longer than a time.Duration can say.
func TestPermit_LastsForCenturies(t *testing.T) {
	t.Parallel()
	const century = 100 * 365 * 24 * time.Hour
	for _, years := range []int{300, 600, 30_000} {
		s := newPermits(t, 1)
		p := permit(t, s, 1, lockrt.WithLease(time.Minute))
		raw, err := hex.DecodeString(p.PermitID())
		require.NoError(t, err)
		ends := time.Now().UnixMilli() + int64(years)*(century/100).Milliseconds()
		redistest.Shared(t).Do("ZADD", "{"+s.Key()+"}:timeout", "XX", ms(ends), string(raw))
		left, err := s.TTL(patient(t), p.PermitID())
		require.NoError(t, err)
		if years < 30_000 {
			require.Greater(t, left, 2*century, "%d years", years)
		} else { // more than Redisson's never
			require.Negative(t, left)
		}
		require.Greater(t, time.Until(p.Until()), century/2, "%d years", years)
		require.NoError(t, p.Release(t.Context()))
	}
}

// multiPermits has some take so many each, of two, and release them.
func multiPermits(t *testing.T, wants ...int) {
	t.Helper()
	key := redistest.Key(t, "p")
	jobs(t, len(wants), func(i int) error {
		p, err := newClient(t, lockrt.Options{}).PermitSemaphore(key, 2).AcquireN(patient(t), wants[i])
		if err != nil {
			return err
		}
		return p.Release(context.Background())
	})
}

func TestRedisson_Permit_ConcurrencyMultiPermits(t *testing.T) {
	t.Parallel()
	multiPermits(t, 2, 2)
}

func TestRedisson_Permit_ConcurrencyMultiPermits2(t *testing.T) {
	t.Parallel()
	multiPermits(t, 1, 2)
}

// A living holder keeps its permit past the watchdog time, and one that died does not.
func TestPermit_IsRenewedWhileItsHolderLives(t *testing.T) {
	t.Parallel()
	renewals := make(chan lockrt.RenewEvent, 1000)
	opts := lockrt.Options{Watchdog: 6 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewals <- e }}}
	c := newClient(t, opts)
	s := c.PermitSemaphore(redistest.Key(t, "p"), 2)
	p := permit(t, s, 2)
	for confirmed := 0; confirmed < 4; {
		e := receive(t, renewals, "a renewal")
		require.Equal(t, lockrt.KindPermit, e.Kind)
		require.Equal(t, s.Key(), e.Key)
		if e.Err == nil {
			confirmed++
		}
	}
	require.NoError(t, p.Err())
	requireCounts(t, s, 0, 2)
	require.NoError(t, c.Close()) // as if it died: Redis is told nothing
	require.ErrorIs(t, p.Err(), lockrt.ErrClosed)
	require.ErrorIs(t, context.Cause(p.Context()), lockrt.ErrClosed)
	other := newClient(t, lockrt.Options{})
	got, err := other.PermitSemaphore(s.Key(), 0).AcquireN(patient(t), 2)
	require.NoError(t, err)
	require.NoError(t, got.Release(t.Context()))
}

func TestPermit_LossIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, take := range map[string]func(s *lockrt.PermitSemaphore, p *lockrt.Permit){
		"released by id": func(s *lockrt.PermitSemaphore, p *lockrt.Permit) { _ = s.Release(t.Context(), p.PermitIDs()...) },
		"one of two released elsewhere": func(s *lockrt.PermitSemaphore, p *lockrt.Permit) {
			_ = newClient(t, lockrt.Options{}).PermitSemaphore(s.Key(), 0).Release(t.Context(), p.PermitID())
		},
		"taken by somebody": func(s *lockrt.PermitSemaphore, _ *lockrt.Permit) { server.Do("DEL", "{"+s.Key()+"}:timeout") },
		"of another type": func(s *lockrt.PermitSemaphore, _ *lockrt.Permit) {
			server.Do("DEL", "{"+s.Key()+"}:timeout")
			server.Do("SET", "{"+s.Key()+"}:timeout", "text")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, _, ends := watch()
			c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: hooks})
			s := c.PermitSemaphore(redistest.Key(t, "p"), 2)
			p := permit(t, s, 2)
			take(s, p)
			receive(t, p.Context().Done(), "the loss")
			require.ErrorIs(t, context.Cause(p.Context()), lockrt.ErrLost)
			require.ErrorIs(t, p.Err(), lockrt.ErrLost)
			require.ErrorIs(t, receive(t, ends, "the hook").Cause, lockrt.ErrLost)
			require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
			require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrReleased)
			require.ErrorIs(t, p.Extend(t.Context(), time.Second), lockrt.ErrLost)
			until(t, "it is not counted any more", func() bool { return c.Stats().Held == 0 })
			require.Empty(t, ends, "once")
		})
	}
}

func TestPermit_EndsAtItsLength(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	start := time.Now()
	for _, opts := range [][]lockrt.LockOption{{lockrt.WithLease(short)}, {lockrt.WithWatchdog(short), lockrt.WithMaxHold(short / 2)}} {
		p := permit(t, s, 1, opts...)
		receive(t, p.Context().Done(), "the end")
		require.ErrorIs(t, p.Err(), lockrt.ErrLost)
	}
	require.Greater(t, time.Since(start), short)
	next := permit(t, s, 1)
	require.NoError(t, next.Release(t.Context()))
}

// The holder of a fixed length is told before it is over, and nobody else has the permit before.
func TestPermit_AFixedLengthIsKept(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	for _, where := range []string{"in the same process", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := newPermits(t, 1)
			waits := s
			if where == "elsewhere" {
				waits = newClient(t, lockrt.Options{}).PermitSemaphore(s.Key(), 0)
			}
			start := time.Now()
			p := permit(t, s, 1, lockrt.WithLease(length))
			granted := time.Now()
			next := permitLater(patient(t), waits, 1)
			receive(t, p.Context().Done(), "the end of trust")
			require.ErrorIs(t, p.Err(), lockrt.ErrLost)
			got := receive(t, next, "the permit")
			require.NoError(t, got.err)
			require.WithinRange(t, time.Now(), start.Add(length), granted.Add(length+late))
			require.NoError(t, got.Release(t.Context()))
		})
	}
}

// Prolonging a permit of fixed length prolongs the trust in it: at once in the holder's process, else when the holder
// asks. A permit whose holder does not ask is lost for the holder at the end of its known time, and stays in Redis all
// the same.
func TestPermit_AFixedLengthCanBeProlonged(t *testing.T) {
	t.Parallel()
	const length = 4 * time.Second
	here := newPermits(t, 3)
	there := newClient(t, lockrt.Options{}).PermitSemaphore(here.Key(), 0)
	mine, asked, unasked := permit(t, here, 1, lockrt.WithLease(length)), permit(t, here, 1, lockrt.WithLease(length)), permit(t, here, 1, lockrt.WithLease(length))
	for p, by := range map[*lockrt.Permit]*lockrt.PermitSemaphore{mine: here, asked: there, unasked: there} {
		ok, err := by.UpdateLease(patient(t), p.PermitID(), time.Hour)
		require.NoError(t, err)
		require.True(t, ok)
	}
	left, err := here.TTL(patient(t), asked.PermitID())
	require.NoError(t, err)
	require.Greater(t, left, 50*time.Minute)
	receive(t, unasked.Context().Done(), "the end of trust")
	for _, p := range []*lockrt.Permit{mine, asked} {
		require.Greater(t, time.Until(p.Until()), 50*time.Minute)
		require.NoError(t, p.Err())
	}
	ok, err := here.UpdateLease(patient(t), mine.PermitID(), lockrt.UntilDone)
	require.NoError(t, err)
	require.True(t, ok)
	require.Greater(t, time.Until(mine.Until()), 1000*time.Hour)
	left, err = there.TTL(patient(t), unasked.PermitID())
	require.NoError(t, err, "it is not given back")
	require.Greater(t, left, 50*time.Minute)
	requireCounts(t, there, 0, 3)
	require.ErrorIs(t, unasked.Release(t.Context()), lockrt.ErrLost)
	until(t, "what is still there of it is given back", func() bool {
		free, err := there.Available(patient(t))
		require.NoError(t, err)
		return free == 1
	})
	require.NoError(t, mine.Release(t.Context()))
	require.NoError(t, asked.Release(t.Context()))
	requireCounts(t, there, 3, 0)
}

// A permit that is set to end sooner is trusted for less, or renewed at once if it is one that is.
func TestPermit_ThatIsShortenedHereIsTrustedForLess(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 2)
	fixed, renewed := permit(t, s, 1, lockrt.WithLease(time.Hour)), permit(t, s, 1)
	for _, p := range []*lockrt.Permit{fixed, renewed} {
		start := time.Now()
		ok, err := s.UpdateLease(patient(t), p.PermitID(), 2*time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		require.Less(t, fixed.Until().Sub(start), 2*time.Second+late)
	}
	until(t, "the other is renewed", func() bool { return time.Until(renewed.Until()) > 10*time.Second })
	receive(t, fixed.Context().Done(), "the end of trust")
	require.NoError(t, renewed.Release(t.Context()))
	expired(t, s, fixed.PermitID())
	requireCounts(t, s, 2, 0)
}

// A permit that Redis does not know any longer is lost as soon as a call learns of it.
func TestPermit_ThatRedisDoesNotKnowIsLost(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 2)
	for name, ask := range map[string]func(id string) error{
		"UpdateLease": func(id string) error {
			ok, err := s.UpdateLease(patient(t), id, time.Minute)
			require.False(t, ok)
			return err
		},
		"TTL": func(id string) error {
			_, err := s.TTL(patient(t), id)
			require.ErrorIs(t, err, lockrt.ErrLost)
			return nil
		},
	} {
		p := permit(t, s, 1, lockrt.WithLease(time.Hour))
		require.NoError(t, newClient(t, lockrt.Options{}).PermitSemaphore(s.Key(), 0).Release(patient(t), p.PermitID()))
		require.NoError(t, ask(p.PermitID()), name)
		require.ErrorIs(t, p.Err(), lockrt.ErrLost, name)
		requireCounts(t, s, 2, 0)
	}
}

// Of several permits that were taken together some are released, and their holder goes on with the others.
func TestPermit_SomeOfSeveralAreGivenBack(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	s := c.PermitSemaphore(redistest.Key(t, "p"), 3)
	p := permit(t, s, 3)
	ids := p.PermitIDs()
	require.NoError(t, s.Release(t.Context(), ids[1]))
	requireCounts(t, s, 1, 2)
	require.Equal(t, []string{ids[0], ids[2]}, p.PermitIDs())
	for range 4 { // longer than the watchdog time
		require.NoError(t, receive(t, renewed, "a renewal").Err)
	}
	require.NoError(t, p.Err())
	require.ErrorIs(t, s.Release(t.Context(), ids[1]), lockrt.ErrLost, "it is of no use any more")
	requireCounts(t, s, 1, 2)
	require.NoError(t, p.Release(t.Context()))
	requireCounts(t, s, 3, 0)
}

// The holder loses the permits that another client releases, and its lease reports the loss. The other permits stay until it releases them.
func TestPermit_SomeOfSeveralAreGivenBackElsewhere(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{Watchdog: 6 * time.Second}).PermitSemaphore(redistest.Key(t, "p"), 3)
	other := newClient(t, lockrt.Options{}).PermitSemaphore(s.Key(), 0)
	p := permit(t, s, 3)
	ids := p.PermitIDs()
	for _, id := range ids[1:] {
		ok, err := other.UpdateLease(patient(t), id, time.Hour)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, other.Release(t.Context(), ids[0]))
	receive(t, p.Context().Done(), "the loss")
	requireCounts(t, s, 1, 2)
	require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
	until(t, "the others are given back", func() bool {
		free, err := s.Available(patient(t))
		require.NoError(t, err)
		return free == 3
	})
}

func TestPermit_ExtendOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	p := permit(t, s, 1, lockrt.WithLease(time.Minute))
	require.NoError(t, p.Extend(patient(t), time.Hour))
	require.Greater(t, time.Until(p.Until()), 50*time.Minute)
	left, err := s.TTL(patient(t), p.PermitID())
	require.NoError(t, err)
	require.Greater(t, left, 50*time.Minute)
	require.NoError(t, p.Extend(patient(t), time.Second), "it never shortens")
	require.Greater(t, time.Until(p.Until()), 50*time.Minute)
	require.NoError(t, p.Release(t.Context()))
}

func TestPermit_ReleasedOnce(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 2)
	p := permit(t, s, 2)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() { errs <- p.Release(context.Background()) })
	}
	wg.Wait()
	close(errs)
	released := 0
	for err := range errs {
		if err == nil {
			released++
			continue
		}
		require.ErrorIs(t, err, lockrt.ErrReleased)
	}
	require.Equal(t, 1, released)
	require.ErrorIs(t, p.Err(), lockrt.ErrReleased)
	requireCounts(t, s, 2, 0)
}

func TestPermit_DoJoinsTheLoss(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	failed := errors.New("failed")
	require.ErrorIs(t, s.Do(patient(t), func(context.Context, *lockrt.Permit) error { return failed }), failed)
	require.NoError(t, s.Do(patient(t), func(context.Context, *lockrt.Permit) error { return nil }))
	err := s.Do(patient(t), func(ctx context.Context, p *lockrt.Permit) error {
		require.NoError(t, s.Release(t.Context(), p.PermitID()))
		receive(t, ctx.Done(), "the loss")
		return nil
	})
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.Panics(t, func() {
		_ = s.Do(patient(t), func(context.Context, *lockrt.Permit) error { panic("x") })
	})
	requireCounts(t, s, 1, 0)
}

func TestPermit_ShutdownWaitsForIt(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	s := c.PermitSemaphore(redistest.Key(t, "p"), 2)
	p := permit(t, s, 2)
	require.Equal(t, 1, c.Stats().Held)
	done := later(func() error { return c.Shutdown(patient(t)) })
	until(t, "nothing is granted any more", func() bool {
		_, err := s.TryAcquire(patient(t))
		return errors.Is(err, lockrt.ErrClosed)
	})
	requireNothing(t, done)
	require.NoError(t, p.Err())
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, receive(t, done, "the end"))
}

func TestPermit_ReleaseWorksAfterClose(t *testing.T) {
	t.Parallel()
	c, err := lockrt.New(redistest.Shared(t).Client(), lockrt.Options{})
	require.NoError(t, err)
	s := c.PermitSemaphore(redistest.Key(t, "p"), 1)
	p := permit(t, s, 1)
	require.NoError(t, c.Close())
	require.ErrorIs(t, p.Err(), lockrt.ErrClosed)
	require.NoError(t, p.Release(t.Context()))
	requireCounts(t, s, 1, 0)
}

func TestPermit_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := newPermits(t, 1)
	for _, n := range []int{0, -1, tooMany} {
		_, err := s.AcquireN(t.Context(), n)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
	_, err := s.Acquire(t.Context(), lockrt.WithLease(time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = s.Acquire(t.Context(), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = s.UpdateLease(t.Context(), "00112233445566778899aabbccddeeff", time.Millisecond)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorIs(t, s.SetPermits(t.Context(), -1), lockrt.ErrBadOption)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Acquire(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", s.Key()))
}

// A call has a bounded number of permits: each has an id, for which the server needs time.
func TestPermit_MostOfOneCall(t *testing.T) {
	t.Parallel()
	s := newPermits(t, math.MaxInt32)
	const most = 10_000
	for _, n := range []int{most + 1, math.MaxInt32} {
		_, err := s.TryAcquireN(t.Context(), n)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		_, err = s.AcquireN(t.Context(), n)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
	p, err := s.TryAcquireN(t.Context(), most)
	require.NoError(t, err)
	require.Len(t, p.PermitIDs(), most)
	require.NoError(t, p.Release(t.Context()))
}

func TestPermit_CancellationRacingWithGrantsLosesNothing(t *testing.T) {
	t.Parallel()
	one, two := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "p")
	var wg sync.WaitGroup
	for _, c := range []*lockrt.Client{one, two} {
		for g := range 8 {
			wg.Go(func() {
				s := c.PermitSemaphore(key, 3)
				for i := range 40 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration((i*g)%7)*300*time.Microsecond)
					if p, err := s.AcquireN(ctx, 1+i%3); err == nil {
						if err := p.Release(context.Background()); err != nil {
							t.Error(err)
						}
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	for _, c := range []*lockrt.Client{one, two} { // the request of a call that gave up may be under way, and what it takes comes back
		until(t, "nothing is under way", func() bool { return lockrt.Counters(c) == 0 })
	}
	requireCounts(t, one.PermitSemaphore(key, 3), 3, 0)
	for _, c := range []*lockrt.Client{one, two} {
		tidyPermits(t, c, redistest.Shared(t), key)
	}
}

// tidyPermits is tidy for a semaphore that was never deleted.
func tidyPermits(t *testing.T, c *lockrt.Client, server *redistest.RedisServer, key string) {
	t.Helper()
	server.Do("DEL", key)
	tidy(t, c, server, key)
	require.Zero(t, c.Stats().Held)
}

// Locks and permits are renewed beside each other, each by its own script.
func TestPermit_AndLocksAreRenewedTogether(t *testing.T) {
	t.Parallel()
	renewals := make(chan lockrt.RenewEvent, 1000)
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewals <- e }}})
	lease, err := c.Mutex(redistest.Key(t, "m")).Lock(patient(t))
	require.NoError(t, err)
	p := permit(t, c.PermitSemaphore(redistest.Key(t, "p"), 1), 1)
	seen := map[lockrt.Kind]int{}
	for seen["mutex"] < 4 || seen["permit"] < 4 {
		if e := receive(t, renewals, "a renewal"); e.Err == nil {
			seen[e.Kind]++
		}
	}
	require.NoError(t, p.Err())
	require.NoError(t, lease.Err())
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestPermit_RenewalIsOneScriptForMany(t *testing.T) {
	t.Parallel()
	atBest(t, "did the machine run often enough to renew leases of 6 seconds", func() (inTime bool) {
		l := newLine(t, steady)
		runs := l.seen(redistest.EvalSHA(scripts.PermitRenew.SHA1()))
		var all []*lockrt.Permit
		for range 20 {
			all = append(all, permit(t, l.client.PermitSemaphore(redistest.Key(t, "p"), 1), 1))
		}
		inTime = true
		for range 4 {
			select {
			case <-runs:
			case <-all[0].Context().Done():
				inTime = false
			case <-patient(t).Done():
				require.Fail(t, "waited too long for a renewal")
			}
		}
		for _, p := range all {
			inTime = p.Release(t.Context()) == nil && inTime
		}
		return inTime && len(runs) < 20
	})
}

// Redisson reckons with the clock of its program, see docs/java.md: with one that is ahead it takes a permit that a process of this library has, and
// a permit that it takes with one that is behind is over too soon.
func TestPermit_ClocksOfJavaPrograms(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	const off = lockrt.DefaultWatchdog + time.Second
	t.Run("ahead", func(t *testing.T) {
		t.Parallel()
		s := newPermits(t, 1)
		p := permit(t, s, 1)
		over, err := server.Do("ZREMRANGEBYSCORE", "{"+s.Key()+"}:timeout", "0", ms(time.Now().Add(off).UnixMilli())).AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, over)
		server.Do("INCRBY", s.Key(), "1")
		ids := strangers(t, s, time.Now().Add(off+lockrt.DefaultWatchdog), 1)
		require.NoError(t, p.Err())
		require.ErrorIs(t, p.Release(patient(t)), lockrt.ErrLost)
		require.NoError(t, s.Release(patient(t), ids[0]))
	})
	t.Run("behind", func(t *testing.T) {
		t.Parallel()
		s := newPermits(t, 1)
		require.NoError(t, permit(t, s, 1).Release(patient(t))) // so that it exists
		strangers(t, s, time.Now().Add(lockrt.DefaultWatchdog-off), 1)
		require.NoError(t, permit(t, s, 1).Release(patient(t)))
	})
}
