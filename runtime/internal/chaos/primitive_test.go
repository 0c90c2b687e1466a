//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// readersMost is more than there are goroutines that could read at once.
const readersMost = 1000

// A primitive is what the processes contend for. Each key of it has some room, of which calls want a part or all.
type primitive struct {
	name    string
	room    int
	leased  bool // a hold expires, is renewed, and its loss is reported
	tracked bool // the server tells when somebody takes it away
	lingers bool // a process grants a key that it released a moment ago without a request
	asks    bool // a waiter with the message of a release asks for it, and is not given it at once

	// members is how many locks a key is, of which a call wants one or all; 0 if it is one itself.
	members int

	// dead is for how long a process that died while it waited keeps out those behind it.
	dead time.Duration

	// open has the process of a worker use it.
	open func(w *worker, c ...*lockrt.Client) lock

	// wants says how much of a key's room a goroutine asks for: 0 asks to find all of it free, and takes nothing.
	wants func(seat, goroutine int, key string) int

	// truth are the keys on the server that say who holds a key.
	truth func(key string) []string

	// expiry asks the server when what a dead holder has is over.
	expiry func(a *arena, key string) time.Duration

	// stays reports whether a key of the server is meant to stay when nobody uses the primitive any more.
	stays func(server *redistest.RedisServer, key string) bool
}

// A lock waits for so much of the key's room.
type lock func(ctx context.Context, key string, units int) (lease, error)

// shares reports whether several may hold a key at once.
func (p *primitive) shares() bool { return p.room > 1 && p.name != latch.name }

// family are the primitives.
var family = []*primitive{mutex, fair, rw, permits, semaphore, latch, multi}

var mutex = &primitive{
	name: "Mutex", room: 1, leased: true, tracked: true,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, _ int) (lease, error) {
			return leased(c[0].Mutex(key).Lock(ctx, lockrt.WithFencing()))
		}
	},
	wants: wantsAll, truth: itself, expiry: timeToLive, stays: counters,
}

// lingers is a mutex whose key stays with a process for a moment after it was released.
var lingers = &primitive{
	name: "Mutex that lingers", room: 1, leased: true, tracked: true, lingers: true,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, _ int) (lease, error) {
			return leased(c[0].Mutex(key).Lock(ctx, lockrt.WithFencing(), lockrt.WithLinger(20*time.Millisecond)))
		}
	},
	wants: wantsAll, truth: itself, expiry: timeToLive, stays: counters,
}

// red is a RedLock, with a client for each of its servers.
var red = &primitive{
	name: "RedLock", room: 1, leased: true, tracked: true,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, _ int) (lease, error) {
			l := lockrt.NewRedLock(key, c)
			return leased(l.Lock(ctx, lockrt.WithFencing()))
		}
	},
	wants: wantsAll, truth: itself, stays: counters,
}

var fair = &primitive{
	name: "FairMutex", room: 1, leased: true, tracked: true, dead: 2 * time.Second,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, _ int) (lease, error) {
			return leased(c[0].FairMutex(key).Lock(ctx, lockrt.WithFencing()))
		}
	},
	wants: wantsAll, truth: itself, expiry: timeToLive, stays: counters,
}

var rw = &primitive{
	name: "RWMutex", room: readersMost, leased: true, tracked: true, asks: true, dead: 2 * time.Second,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, units int) (lease, error) {
			if units == readersMost {
				return leased(c[0].RWMutex(key).Lock(ctx, lockrt.WithFencing()))
			}
			return leased(c[0].RWMutex(key).RLock(ctx))
		}
	},
	wants: wantsSome(readersMost), truth: itself, expiry: timeToLive, stays: counters,
}

var permits = &primitive{
	name: "PermitSemaphore", room: processes, leased: true, asks: true,
	open: func(w *worker, c ...*lockrt.Client) lock {
		room := w.room(processes)
		return func(ctx context.Context, key string, units int) (lease, error) {
			p, err := c[0].PermitSemaphore(key, room).AcquireN(ctx, units)
			if err != nil {
				return nil, err
			}
			return permit{p}, nil
		}
	},
	wants: wantsSome(processes),
	truth: func(key string) []string { return []string{key, "{" + key + "}:timeout"} },
	expiry: func(a *arena, key string) time.Duration {
		// Nobody renews what the dead one has, so it is the first to end.
		reply := a.server.Do("EVAL", strings.Join([]string{
			"local t = redis.call('time')",
			"return math.ceil(redis.call('zrange', KEYS[1], 0, 0, 'withscores')[2] - t[1] * 1000 - t[2] / 1000)",
		}, "\n"), "1", "{"+key+"}:timeout")
		left, err := reply.AsInt64()
		require.NoError(a.t, err)
		return time.Duration(left) * ms
	},
	stays: counted(processes),
}

var semaphore = &primitive{
	name: "Semaphore", room: processes, asks: true,
	open: func(w *worker, c ...*lockrt.Client) lock {
		room := w.room(processes)
		return func(ctx context.Context, key string, units int) (lease, error) {
			s := c[0].Semaphore(key, room)
			if err := s.Acquire(ctx, units); err != nil {
				return nil, err
			}
			return unleased{func(ctx context.Context) error { return s.Release(ctx, units) }}, nil
		}
	},
	wants: wantsSome(processes), truth: itself, stays: counted(processes),
}

// latch is held by the one goroutine that sets and counts down its key; the others wait for that.
var latch = &primitive{
	name: "CountDownLatch", room: readersMost, asks: true,
	open: func(_ *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, units int) (lease, error) {
			l := c[0].CountDownLatch(key)
			if units == 0 {
				if err := l.Wait(ctx); err != nil {
					return nil, err
				}
				return unleased{func(context.Context) error { return nil }}, nil
			}
			return setLatch(ctx, l)
		}
	},
	wants: func(seat, goroutine int, key string) int {
		keys := append([]string{longKey}, briefKeys...)
		if goroutine == min(seat-1, 1) && key == keys[seat-1] {
			return readersMost
		}
		return 0
	},
	truth: itself, stays: counters,
}

// multi is a MultiLock of two mutexes, which are locked together, and a writer, who comes after them. Some calls want one of the
// members alone: the one that has the number of the process' seat, and only one goroutine of a process at a time wants that of a key.
var multi = &primitive{
	name: "MultiLock", room: processes, leased: true, tracked: true, members: 3, dead: 2 * time.Second,
	open: func(w *worker, c ...*lockrt.Client) lock {
		return func(ctx context.Context, key string, units int) (lease, error) {
			members := []lockrt.Locker{c[0].Mutex(memberName(key, 0)), c[0].Mutex(memberName(key, 1)), c[0].RWMutex(memberName(key, 2))}
			if units < processes {
				i := w.Seat - 1
				l, err := members[i].Lock(ctx, lockrt.WithFencing())
				if err != nil {
					return nil, err
				}
				if i > 0 {
					return numbered{l, 0}, nil
				}
				return l, nil
			}
			if w.Mutant == mutantTorn {
				members = members[:2]
			}
			rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			l, err := lockrt.NewMultiLock(members...).Lock(ctx, lockrt.WithFencing())
			if err != nil {
				return nil, err
			}
			return numbered{l, l.Parts()[0].Token()}, nil
		}
	},
	wants: func(_, goroutine int, key string) int {
		switch {
		case goroutine == goroutineShared, goroutine == goroutineBrief && rand.N(2) == 0, goroutine == goroutineHasty && key == longKey:
			return 1
		}
		return processes
	},
	truth: membersOf,
	expiry: func(a *arena, key string) (last time.Duration) {
		for _, m := range membersOf(key) { // a waiter for the first of them has none of the others
			last = max(last, timeToLive(a, m))
		}
		return last
	},
	stays: counters,
}

// memberName names a member of a key of several.
func memberName(key string, i int) string {
	if i == 0 {
		return key
	}
	return fmt.Sprint(key, ":", i)
}

// memberOf is its reverse.
func memberOf(name string) (key string, i int) {
	key, number, _ := strings.Cut(name, ":")
	i, _ = strconv.Atoi(number) // nothing is 0
	return key, i
}

func membersOf(key string) (all []string) {
	for i := range processes {
		all = append(all, memberName(key, i))
	}
	return all
}

// numbered is a lease with the fencing token of one of its parts, or without the one that it has.
type numbered struct {
	*lockrt.Lease

	token int64
}

func (n numbered) Token() int64 { return n.token }

// setLatch sets a latch that nobody else sets.
func setLatch(ctx context.Context, l *lockrt.CountDownLatch) (lease, error) {
	for { // the last countdown may be under way still
		left, err := l.Count(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && left == 0 {
			break
		}
		pause(ctx, ms)
	}
	for { // if it is set after an error, the request before did it
		if _, err := l.SetCount(context.WithoutCancel(ctx), 1); err == nil {
			break
		}
		pause(context.Background(), ms)
	}
	return unleased{func(ctx context.Context) error {
		_, err := l.CountDown(ctx)
		return err
	}}, nil
}

func leased(l *lockrt.Lease, err error) (lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

type permit struct{ *lockrt.Permit }

func (p permit) Token() int64                     { return 0 }
func (p permit) Unlock(ctx context.Context) error { return p.Release(ctx) }

// unleased is what is held until it is released, whatever happens.
type unleased struct {
	give func(ctx context.Context) error
}

func (unleased) Context() context.Context           { return context.Background() }
func (unleased) Err() error                         { return nil }
func (unleased) Until() time.Time                   { return time.Now().Add(time.Hour) }
func (unleased) Token() int64                       { return 0 }
func (u unleased) Unlock(ctx context.Context) error { return u.give(ctx) }

func wantsAll(int, int, string) int { return 1 }

// wantsSome has one process want a part of the long key, and the others all of it, so that one at a time has it.
func wantsSome(room int) func(seat, goroutine int, key string) int {
	return func(seat, goroutine int, key string) int {
		switch {
		case goroutine == goroutineShared, goroutine == goroutineLong && seat == 2:
			return 1
		case goroutine == goroutineLong, rand.N(3) == 0:
			return room
		}
		return 1
	}
}

func itself(key string) []string { return []string{key} }

func timeToLive(a *arena, key string) time.Duration {
	left, err := a.server.Do("PTTL", key).AsInt64()
	require.NoError(a.t, err)
	return time.Duration(left) * ms
}

// counters are what expires by itself some minutes later.
func counters(server *redistest.RedisServer, key string) bool {
	if !slices.ContainsFunc([]string{"redisson_lock_token:", "lockgen_requests:", "lockgen_process:"}, func(prefix string) bool {
		return strings.HasPrefix(key, prefix)
	}) {
		return false
	}
	left, err := server.Try("PTTL", key)
	if err != nil {
		return false
	}
	n, err := left.AsInt64()
	return err == nil && n != -1
}

// counted are counters, and the semaphores, all of whose permits have to be there.
func counted(room int) func(server *redistest.RedisServer, key string) bool {
	return func(server *redistest.RedisServer, key string) bool {
		for _, k := range append([]string{longKey, sharedKey}, briefKeys...) {
			if k == key {
				value, err := server.Try("GET", key)
				if err != nil {
					return false
				}
				text, err := value.ToString()
				return err == nil && text == strconv.Itoa(room)
			}
		}
		return counters(server, key)
	}
}

// mutants are primitives that are broken on purpose, to show that the harness finds it.
const (
	mutantAlone = "alone" // each process has one of its own
	mutantDeaf  = "deaf"  // its leases last for ever
	mutantStuck = "stuck" // it does not unlock the long key before the run is about to end
	mutantSlow  = "slow"  // it returns long after its context has ended, when the run is about to end
	mutantWide  = "wide"  // a semaphore that has one permit more than it should
	mutantRash  = "rash"  // now and then it grants what it was not asked for
	mutantTorn  = "torn"  // of several members it leaves one out
)

// room is how many permits the semaphores have that should have n.
func (w *worker) room(n int) int {
	if w.Mutant == mutantWide {
		n++
	}
	return n
}

// mutate returns the lock, broken if that is wanted.
func (w *worker) mutate(l lock) lock {
	var calls atomic.Int64
	switch w.Mutant {
	case mutantAlone:
		return func(ctx context.Context, key string, units int) (lease, error) {
			return l(ctx, fmt.Sprint(key, w.Proc), units)
		}
	case mutantDeaf:
		return func(ctx context.Context, key string, units int) (lease, error) {
			got, err := l(ctx, key, units)
			if err != nil {
				return nil, err
			}
			return deaf{got}, nil
		}
	case mutantStuck:
		return func(ctx context.Context, key string, units int) (lease, error) {
			got, err := l(ctx, key, units)
			if err != nil || key != longKey {
				return got, err
			}
			return stuck{got, w.release}, nil
		}
	case mutantSlow:
		return func(ctx context.Context, key string, units int) (lease, error) {
			got, err := l(ctx, key, units)
			if err != nil && ctx.Err() != nil {
				<-w.release
			}
			return got, err
		}
	case mutantRash:
		return func(ctx context.Context, key string, units int) (lease, error) {
			if units == 0 && calls.Add(1)%10 == 0 {
				return unleased{func(context.Context) error { return nil }}, nil
			}
			return l(ctx, key, units)
		}
	}
	return l
}

type deaf struct{ lease }

func (deaf) Context() context.Context { return context.Background() }
func (deaf) Err() error               { return nil }
func (deaf) Until() time.Time         { return time.Now().Add(time.Hour) }

type stuck struct {
	lease
	until <-chan struct{}
}

func (s stuck) Unlock(ctx context.Context) error {
	go func() {
		<-s.until
		_ = s.lease.Unlock(context.WithoutCancel(ctx))
	}()
	return nil
}

// primitiveOf returns the primitive of that name.
func primitiveOf(name string) (*primitive, error) {
	for _, p := range append(family, red, lingers) {
		if p.name == name {
			return p, nil
		}
	}
	return nil, errors.New("no such primitive: " + name)
}
