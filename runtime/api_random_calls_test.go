package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file has the calls of TestRandom_Calls.

// A caller is a goroutine that draws its calls.
type caller struct {
	*world
	*rand.Rand
	set int
}

// within returns a time up to d.
func (c *caller) within(d time.Duration) time.Duration { return 1 + time.Duration(c.Int64N(int64(d))) }

// long returns a time for which something is held: in a calm world it lasts.
func (c *caller) long(d time.Duration) time.Duration {
	if c.weather.lasting() {
		return time.Minute
	}
	return 100*time.Millisecond + c.within(d)
}

func (c *caller) client() *lockrt.Client { return c.sets[c.set][0] }

func (c *caller) of(kind string) string { return fmt.Sprint(kind, c.IntN(3)) }

// pick returns a lock, and what it takes.
func (c *caller) pick() (lockrt.Locker, []name) {
	m, f, rw, red := c.of("mutex"), c.of("fair"), c.of("rw"), c.of("red")
	switch c.IntN(9) {
	case 0, 1:
		return c.client().Mutex(m), []name{{key: m}}
	case 2:
		return c.client().FairMutex(f), []name{{key: f}}
	case 3:
		return c.client().RWMutex(rw), []name{{key: rw}}
	case 4:
		return c.client().RWMutex(rw).RLocker(), []name{{key: rw, reads: true}}
	case 5, 6:
		p := c.permits()
		return lockrt.PermitLocker(p), []name{{key: p.Key(), places: places}}
	case 7:
		all := []lockrt.Locker{c.client().Mutex(m), c.client().RWMutex(rw), lockrt.NewRedLock(red, c.sets[c.set]), c.client().FairMutex(f), c.client().Mutex(m)}
		return lockrt.NewMultiLock(all...), []name{{key: m}, {key: rw}, {key: red}, {key: f}}
	default:
		return lockrt.NewRedLock(red, c.sets[c.set]), []name{{key: red}}
	}
}

func (c *caller) permits() *lockrt.PermitSemaphore {
	return c.client().PermitSemaphore(c.of("permit"), places)
}

func (c *caller) options() (opts []lockrt.LockOption) {
	if c.IntN(3) == 0 {
		opts = append(opts, lockrt.WithLease(c.long(300*time.Millisecond)))
	}
	if !c.weather.lasting() && c.IntN(4) == 0 {
		opts = append(opts, lockrt.WithMaxHold(c.within(200*time.Millisecond)))
	}
	if c.IntN(3) == 0 {
		opts = append(opts, lockrt.WithWait(c.within(50*time.Millisecond)))
	}
	if c.IntN(6) == 0 {
		opts = append(opts, lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond)))
	}
	return opts
}

// turn locks something, and has up to three goroutines do something under it at once. It returns false if the client is closed.
func (c *caller) turn() bool {
	if c.weather != calm && c.IntN(10) == 0 {
		c.harm()
	}
	lock, names := c.pick()
	ctx, cancel := context.WithTimeout(context.Background(), c.within(100*time.Millisecond))
	defer cancel()
	if c.IntN(4) == 0 {
		ctx = lockrt.WithOwner(ctx, c.owners[c.IntN(2)])
	}
	lease, err := lock.Lock(ctx, c.options()...)
	if err != nil {
		return !errors.Is(err, lockrt.ErrClosed)
	}
	inner, leave := c.enter(lease.Context(), names...)
	var all sync.WaitGroup
	for range c.IntN(4) {
		other := &caller{c.world, rand.New(rand.NewPCG(c.Uint64(), c.Uint64())), c.set}
		all.Go(func() { other.act(inner, lease, leave) })
	}
	all.Wait()
	if err := lease.Err(); c.weather.lasting() && errors.Is(err, lockrt.ErrLost) {
		c.fault("%s: %v", lease.Key(), err)
	}
	leave()
	if err := lease.Unlock(ctx); c.weather == calm && err != nil && !errors.Is(err, lockrt.ErrReleased) {
		c.fault("unlocking %s: %v", lease.Key(), err)
	}
	return true
}

// act does something under a lease whose context is in ctx.
func (c *caller) act(ctx context.Context, lease *lockrt.Lease, leave func()) {
	soon := lockrt.WithWait(c.within(80 * time.Millisecond))
	switch c.IntN(16) {
	case 0:
		_ = lease.Extend(ctx, c.long(time.Second))
		_, _ = lease.TTL(ctx)
	case 1:
		_, _, _ = lease.Until(), lease.Parts(), lease.Token()
		_, _ = lease.Err(), context.Cause(lease.Context())
	case 2:
		leave()
		for _, part := range lease.Parts() {
			_ = part.Unlock(ctx)
		}
		_ = lease.Unlock(ctx)
	case 3, 4:
		lock, names := c.pick()
		if l, err := lock.Lock(ctx, soon); err == nil {
			_, leave := c.enter(l.Context(), names...)
			_ = l.Until()
			leave()
			_ = l.Unlock(ctx)
		}
	case 5:
		_ = c.client().Snapshot()
		sub, end := context.WithTimeout(ctx, c.within(30*time.Millisecond))
		defer end()
		_, _ = c.client().Fleet(sub, c.of("mutex"))
	case 6, 7, 8:
		c.permit(ctx, soon)
	case 9:
		s := c.client().Semaphore(c.of("sem"), places)
		if n := 1 + c.IntN(2); s.Acquire(ctx, n, soon) == nil {
			_, leave := c.enter(ctx, slices.Repeat([]name{{key: s.Key(), places: places}}, n)...)
			leave()
			_ = s.Release(ctx, n)
		}
	case 10:
		latch := c.client().CountDownLatch(c.of("latch"))
		_, _ = latch.SetCount(ctx, 2)
		_ = latch.Wait(ctx, soon)
		_, _ = latch.CountDown(ctx)
		if c.IntN(3) == 0 {
			_, _ = latch.Delete(ctx)
		}
	case 11:
		if l, err := c.client().Election(c.of("office"), soon).Campaign(ctx, "v"); err == nil {
			_ = l.Proclaim(ctx, "w")
			_ = l.Resign(ctx)
		}
	case 12:
		sub, end := context.WithTimeout(ctx, c.within(60*time.Millisecond))
		defer end()
		_ = c.client().Every(c.of("every"), 100*time.Millisecond, func(context.Context, lockrt.Tick) error { return nil }).Run(sub)
	case 13:
		_, _ = c.client().RWMutex(c.of("rw")).Inspect(ctx)
		_, _ = c.client().FairMutex(c.of("fair")).Inspect(ctx)
		_, _ = c.permits().Inspect(ctx)
	default:
		if !c.weather.lasting() {
			c.force(ctx)
		}
	}
}

// permit takes one permit under others of the same semaphore.
func (c *caller) permit(ctx context.Context, soon lockrt.LockOption) {
	p, n := c.permits(), 1+c.IntN(2)
	x, err := p.AcquireN(ctx, n, soon)
	if err != nil {
		return
	}
	_, leave := c.enter(ctx, slices.Repeat([]name{{key: p.Key(), places: places}}, n)...)
	for _, id := range x.PermitIDs() {
		_, _ = p.UpdateLease(ctx, id, c.long(time.Second))
		_, _ = p.TTL(ctx, id)
	}
	if y, err := p.Acquire(x.Context(), soon); err == nil {
		_ = y.Release(ctx)
	}
	leave()
	if c.IntN(3) == 0 {
		_ = p.Release(ctx, x.PermitID())
	}
	_ = x.Release(ctx)
}

// force takes away what others have.
func (c *caller) force(ctx context.Context) {
	_, _ = c.client().Mutex(c.of("mutex")).ForceUnlock(ctx)
	_, _ = c.client().RWMutex(c.of("rw")).ForceUnlock(ctx)
	_, _ = c.client().FairMutex(c.of("fair")).ForceUnlock(ctx)
	p := c.permits()
	_, _ = p.Resize(ctx, c.IntN(3)-1)
	_ = p.SetPermits(ctx, places)
}

// harm ends a silence of the network, or begins one, or has a server lose its connections or its data.
func (c *caller) harm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Err() != nil {
		return // the network works again, or is about to
	}
	i := c.IntN(len(c.proxies))
	if silent := slices.Index(c.black, true); silent >= 0 {
		i = silent
	}
	switch act := c.IntN(4); {
	case c.black[i] && act < 2:
		c.proxies[i].Deliver()
		c.black[i] = false
	case c.black[i]:
		c.proxies[i].Discard()
		c.black[i] = false
	case act == 0:
		c.proxies[i].Cut()
	case act == 1 && c.weather.lasting():
		c.proxies[i].Delay(c.within(200 * time.Millisecond))
	case act == 1:
		if _, err := c.servers[i].Try("FLUSHALL"); err != nil {
			c.wrong = append(c.wrong, err.Error())
		}
	default:
		c.proxies[i].Blackhole(redistest.Both)
		c.black[i] = true
		if c.closing {
			c.mute[c.servers[i]] = true
		}
	}
}

// move moves the slot of a key to another master, with calls in the middle, and may have the master that had it close connections.
func (c *caller) move() {
	kinds := []string{"mutex", "fair", "rw", "red", "permit", "sem", "latch", "office", "every"}
	key := c.of(kinds[c.IntN(len(kinds))])
	from := c.cluster.Master(key)
	others := slices.DeleteFunc(c.cluster.Nodes()[:3], func(s *redistest.RedisServer) bool { return s == from })
	move := c.cluster.Move(c.cluster.Slot(key), others[c.IntN(len(others))])
	for range c.IntN(4) {
		c.turn()
	}
	move.Keys()
	for range c.IntN(4) {
		c.turn()
	}
	move.End()
	if c.IntN(3) == 0 {
		from.Do("CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[c.IntN(2)])
	}
}
