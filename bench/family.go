package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// The primitives of lockgen besides its Mutex, which is the library lockgen. lock acquires and unlock releases, as for
// other libraries: a permit, or a whole latch, which is set and counted down.
const (
	fairMutex = "FairMutex"
	writing   = "RWMutex writing"
	reading   = "RWMutex reading"
	mixed     = "RWMutex reading 9 times of 10"
	semaphore = "Semaphore"
	permits   = "PermitSemaphore"
	latch     = "CountDownLatch"
)

var family = []library{
	{family: true, name: fairMutex, us: true, open: openPrimitive(func(c *lockrt.Client) lock {
		return leases(func(key string) (*lockrt.Lease, error) { return c.FairMutex(key).Lock(context.Background()) })
	})},
	{family: true, name: writing, us: true, open: openPrimitive(func(c *lockrt.Client) lock { return writes(c) })},
	{family: true, name: reading, us: true, open: openPrimitive(func(c *lockrt.Client) lock { return reads(c) })},
	{family: true, name: mixed, us: true, open: openPrimitive(func(c *lockrt.Client) lock {
		var turns atomic.Int64
		read, write := reads(c), writes(c)
		return func(key string) (held, error) {
			if turns.Add(1)%10 == 0 {
				return write(key)
			}
			return read(key)
		}
	})},
	{family: true, name: semaphore, us: true, open: openPrimitive(func(c *lockrt.Client) lock {
		return func(key string) (held, error) {
			s := c.Semaphore(key, permitsEach)
			if err := s.Acquire(context.Background(), 1); err != nil {
				return nil, err
			}
			return semaphoreHeld{s}, nil
		}
	})},
	{family: true, name: permits, us: true, open: openPrimitive(func(c *lockrt.Client) lock {
		return func(key string) (held, error) {
			p, err := c.PermitSemaphore(key, permitsEach).Acquire(context.Background())
			if err != nil {
				return nil, err
			}
			return permitHeld{p}, nil
		}
	})},
	{family: true, name: latch, us: true, open: openPrimitive(func(c *lockrt.Client) lock {
		return func(key string) (held, error) {
			l := c.CountDownLatch(key)
			if _, err := l.SetCount(context.Background(), 1); err != nil {
				return nil, err
			}
			return latchHeld{l}, nil
		}
	})},
}

// permitsEach is how many permits the semaphores have.
const permitsEach = 4

// openPrimitive returns a function that connects a process as a client of this primitive.
func openPrimitive(of func(c *lockrt.Client) lock) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) {
		c, err := lockrt.Open(context.Background(), "redis://"+addr, lockrt.Options{Watchdog: lease})
		if err != nil {
			return nil, err
		}
		return &client{
			lock:  of(c),
			wait:  func(key string) error { return c.CountDownLatch(key).Wait(context.Background()) },
			waits: func() int { return c.Stats().Waiting },
		}, nil
	}
}

func leases(f func(key string) (*lockrt.Lease, error)) lock {
	return func(key string) (held, error) {
		l, err := f(key)
		if err != nil {
			return nil, err
		}
		return lockgenHeld{l}, nil
	}
}

func writes(c *lockrt.Client) lock {
	return leases(func(key string) (*lockrt.Lease, error) { return c.RWMutex(key).Lock(context.Background()) })
}

func reads(c *lockrt.Client) lock {
	return leases(func(key string) (*lockrt.Lease, error) { return c.RWMutex(key).RLock(context.Background()) })
}

type permitHeld struct{ *lockrt.Permit }

func (h permitHeld) unlock() error { return h.Release(context.Background()) }
func (h permitHeld) trusted() bool { return h.Err() == nil }

type semaphoreHeld struct{ *lockrt.Semaphore }

func (h semaphoreHeld) unlock() error { return h.Release(context.Background(), 1) }
func (h semaphoreHeld) trusted() bool { return true }

type latchHeld struct{ *lockrt.CountDownLatch }

func (h latchHeld) unlock() error {
	_, err := h.CountDown(context.Background())
	return err
}
func (h latchHeld) trusted() bool { return true }

func familyScenarios() []*scenario {
	const howEach = "The RWMutex is locked for writing or for reading, of a semaphore one permit is taken, a latch is set and counted down."
	var twoCommands []goal
	for _, lib := range append([]library{{name: lockgen}}, family...) {
		if lib.name != mixed {
			twoCommands = append(twoCommands, goal{lib.name + ": at most two commands for a cycle", valueOf(lib.name, "sent"), 2.2, false, small})
		}
	}
	all := []*scenario{{
		id: "S9", point: "reading", title: "1000 goroutines of one process read one RWMutex", of: reading, fit: func(lib library) bool { return lib.name == reading }, floors: []string{counted},
		how: counted + ": one mutex, a lease for each reader, and the list of them; the first reader takes the hold in Redis and the last gives it up. The loop that measures is part of each row.",
		run: cycles(party{goroutines: 1000, shared: true}), columns: sharedColumns,
		headline: headline{metric: "rate", format: count, unit: "/s"},
		goals: []goal{
			{"at least 1,000,000 read locks a second", value("rate"), 1e6, true, count},
			{"at most 0.01 commands for each", value("sent"), 0.01, false, small},
			{"nobody starves", worst("never"), 0, false, count},
		},
	}}
	for _, g := range []int{1, 64} {
		all = append(all, &scenario{
			id: "S10", point: strconv.Itoa(g), title: fmt.Sprintf("Each primitive, goroutines: %d, keys that nobody else wants; in short: the FairMutex", g), of: fairMutex,
			how: "lockgen is its Mutex. " + howEach + " " + howAlone, fit: func(lib library) bool {
				return lib.us && !lib.observer && !lib.lingers && lib.name != mixed || lib.floor || lib.name == basic
			},
			run: cycles(party{goroutines: g}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: twoCommands,
		})
	}
	for _, g := range []int{16, 100} {
		all = append(all, &scenario{
			id: "S11", point: strconv.Itoa(g), title: fmt.Sprintf("Each primitive, %d goroutines of one process, one key; in short: the FairMutex", g), of: fairMutex, plain: true,
			how: fmt.Sprintf("lockgen is its Mutex. Semaphores have %d permits, of which each takes one. Redisson's way is its plain mutex, written here: each waiter listens, a release wakes one in each process, and the one that asks first has it; in ports to Go a release wakes all. A FairMutex grants in the order of asking, to goroutines as to processes, and so asks Redis for each; waiters of one process that stand one behind the other in its queue then have the lock in a row.", permitsEach),
			fit: func(lib library) bool {
				return lib.us && !lib.observer && !lib.lingers && lib.name != latch || lib.redisson
			},
			run: cycles(party{goroutines: g, shared: true}), columns: sharedColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least as many acquisitions as Redisson's plain mutex in ports to Go", func(t *table) spread { return t.ratio(fairMutex, ports, "rate") }, 1, true, times},
				{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
				{"nobody starves", worst("never"), 0, false, count},
			},
		})
	}
	return append(all,
		&scenario{
			id: "S12", title: "1000 goroutines of one process wait for a latch, which another opens: all have heard", of: latch, fit: func(lib library) bool { return lib.name == latch },
			how: "Commands are those for each of them, with setting and opening it.", run: opening(1000), headline: headline{metric: "p50", format: duration, lowest: true},
			columns: []column{{"median", "p50", duration}, colLongest, {"commands for each", "sent", small}},
			goals: []goal{
				{"at most 0.1 commands for each waiter", value("sent"), 0.1, false, small},
			},
		},
		&scenario{
			id: "S13", title: "256 goroutines, keys that nobody else wants, in a cluster of three", fit: func(lib library) bool { return lib.name == lockgen },
			how: "Beside one server in the same round. All run on the same cores, so three servers are no more hardware than one.",
			run: inCluster, headline: headline{metric: "rate", format: count, unit: "/s"},
			columns: []column{colRate, {"one server", "one", count}, {"of one server's", "share", hundredth}, colP50, colP99, {"p99, one server", "onep99", duration}, colAllocs, colBytes, colClient, colStuck},
			goals:   []goal{{"nobody hangs", worst("stuck"), 0, false, count}},
		})
}
