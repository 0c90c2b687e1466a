package lockrt

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// released is the outcome of a release.
type released struct {
	protocol.Released
	sent time.Time // before the request
}

// A giving is a claim that is given back.
type giving struct {
	h      *home
	cl     *claim
	handed bool
	held   bool   // it was a hold
	plain  bool   // nobody is known to wait for it
	again  *claim // by which this process wants the key once more, with terms
	terms  terms

	limit time.Time // when to go on in the background
	tried bool      // a try may have succeeded without our knowing
	down  outage

	waited bool       // somebody waits for the outcome
	done   chan error // the outcome
	timer  *time.Timer
}

var givings = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &giving{done: make(chan error, 1), timer: timer}
}}

func newGiving(h *home, cl *claim, handed bool) *giving {
	g := givings.Get().(*giving)
	*g = giving{h: h, cl: cl, handed: handed, done: g.done, timer: g.timer, limit: now().Add(h.c.opts.OpTimeout)}
	return g
}

func (g *giving) recycle() {
	*g = giving{done: g.done, timer: g.timer}
	givings.Put(g)
}

// outcome returns what became of the hold of l, at most Options.OpTimeout after it was to be given back.
func (g *giving) outcome(l *Lease) error {
	err := g.wait(g.limit, g.h.c.opts.OpTimeout)
	if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
		return cause // by the clock, before the watchdog could say so
	}
	return err
}

// wait returns the outcome, when limit is over at the latest. After that g goes on without the caller.
func (g *giving) wait(over time.Time, limit time.Duration) error {
	select {
	case err := <-g.done:
		g.recycle()
		return err
	default:
	}
	g.timer.Reset(time.Until(over))
	select {
	case err := <-g.done:
		g.timer.Stop()
		g.recycle()
		return err
	case <-g.timer.C:
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", limit)
	}
}

// free gives a claim back, or takes it out of the line, and then lets the queue go on, with again as
// its claim if there is one. The home is busy until then, and left by the caller's stay. It tries until
// Redis has answered, at most for Options.OpTimeout; after that it goes on in the background.
func (h *home) free(g *giving) {
	switch {
	case g.cl.settled != nil:
		h.c.spawn(func() {
			g.cl.doubt = <-g.cl.settled || g.cl.doubt // or that request could take the lock again, for nobody
			h.c.traces(trace.Unlocks, h.key, g.cl.n)
			h.c.releases.Submit(g, false)
		})
	case g.simple():
		h.c.frees.Submit(g, h.c.net.Prompt())
	default:
		h.c.releases.Submit(g, h.c.net.Prompt())
	}
}

// simple reports whether nothing but the key is to be given back, at once.
func (g *giving) simple() bool { return g.plain && g.cl.settled == nil }

func (g *giving) Key() string { return g.h.key }

func (g *giving) Append(keys, args []string) (allKeys, allArgs []string) {
	wire := &g.h.c.wire
	g.h.c.traces(trace.GivesBack, g.h.key, g.cl.n)
	if g.plain {
		return wire.Free(keys, args, g.h.key, g.cl.n)
	}
	// Whoever was handed the key by another process leaves the next turn to Redisson's waiters.
	r := protocol.Release{Of: g.cl.ticket(), JavasTurn: g.handed}
	if g.again != nil {
		r.Again, r.Lease = g.again.ticket(), g.terms.ttl
		g.h.c.traces(trace.Joins, g.h.key, g.again.n)
	}
	return wire.Release(keys, args, g.h.key, r)
}

func (g *giving) Answered(sent time.Time, reply protocol.Answer, err error) {
	if g.plain {
		g.plain = false // whatever follows
		if err == nil && protocol.ReadRelease(reply).Outcome == protocol.Contended {
			g.h.c.releases.Submit(g, false)
			return
		}
	}
	h, cl := g.h, g.cl
	if err == nil && cl.doubt {
		// A request of this claim whose reply was lost may still be on its way.
		h.c.withdraw(h.key, cl)
	}
	switch {
	case err == nil:
		done := released{protocol.ReadRelease(reply), sent}
		if done.Outcome == protocol.NotOurs && !g.tried { // else by the try whose reply was lost
			err = lost(watchdog.ErrRefused)
		}
		g.finish(done, err)
		return
	case !passing(err):
		if cl.standing || cl.doubt {
			h.c.withdraw(h.key, cl) // its place in line would be handed the lock
		}
		g.finish(released{protocol.Released{Outcome: protocol.NotOurs}, sent}, refused(err))
		return
	}
	h.mu.Lock()
	h.said.fails(err)
	h.mu.Unlock()
	g.tried = g.tried || transport.Unknown(err)
	pause := g.down.pause(h.c.opts.Retry, err)
	if now().Add(pause).After(g.limit) {
		h.c.withdraw(h.key, cl)
		g.finish(released{protocol.Released{Outcome: protocol.NotOurs}, sent}, err)
		return
	}
	if g.again != nil {
		h.c.traces(trace.Unknown, h.key, g.again.n)
	}
	h.c.spawn(func() {
		<-time.After(pause)
		h.c.releases.Submit(g, false)
	})
}

// finish lets the queue go on and tells who waits for the outcome.
func (g *giving) finish(done released, err error) {
	h, again := g.h, g.again
	h.c.disconnect(g.cl.n)
	var rest func()
	h.mu.Lock()
	h.busy--
	h.said.changes()
	if again == nil || h.claim != again {
		h.promote() // handed over already, if it was in line
	} else {
		rest = h.goOn(again, g.terms, done, err)
	}
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
	if g.held {
		h.c.held(-1)
	}
	if g.waited {
		g.done <- err
	} else {
		g.recycle()
	}
	h.c.leave(h)
}

// giveBack gives a claim back by once, which reports whether Redis had the key for it. It tries until Redis has
// answered, at most for Options.OpTimeout; after that later does, in the background. So it does if a request for
// the claim whose reply was lost may still be on its way, or if the claim may stand in a line that Redis refuses to
// take it out of.
func (c *Client) giveBack(doubt, standing bool, once func() (bool, error), later func()) error {
	limit := time.Now().Add(c.opts.OpTimeout)
	var down outage
	for tried := false; ; {
		ours, err := once()
		if err == nil && doubt {
			later()
		}
		switch {
		case err == nil && (ours || tried):
			return nil // if not now, then by the try whose reply was lost
		case err == nil:
			return lost(watchdog.ErrRefused)
		case !passing(err):
			if tried || doubt || standing {
				later()
			}
			return refused(err)
		}
		tried = tried || transport.Unknown(err)
		pause := down.pause(c.opts.Retry, err)
		if time.Now().Add(pause).After(limit) {
			later()
			return err
		}
		<-time.After(pause)
	}
}

// withdraw makes sure that Redis does not keep the key for a claim that nobody wants any more. It does not block.
func (c *Client) withdraw(key string, cl *claim) {
	c.janitor.throw(lockSweeper{key}, &remains{n: cl.n, tokens: cl.inLine, watch: cl.ttl})
}

// releaseOnce gives a claim back, alone.
func (c *Client) releaseOnce(key string, cl *claim) error {
	return lockSweeper{key}.sweep(c, []*remains{{n: cl.n, tokens: cl.inLine}})
}

// withdrawBy withdraws a claim to key, of a lease of ttl, by what releases it.
func (c *Client) withdrawBy(key string, ttl time.Duration, release func() error) {
	const least, most, mostFailing, limit = 25 * time.Millisecond, 5 * time.Second, 250 * time.Millisecond, time.Minute
	until := now().Add(limit)
	answered := false
	for pause := least; ; pause = min(2*pause, most) {
		err := release()
		if err == nil && !answered {
			answered, until = true, now().Add(ttl)
		}
		switch {
		case errors.Is(err, rueidis.ErrClosing):
			return
		case err != nil:
			pause = min(pause, mostFailing)
		}
		if now().After(until) {
			if !answered {
				c.opts.Logger.Warn("lockgen: a claim could not be withdrawn; its key expires", "key", key, "error", err)
			}
			return
		}
		if !c.pause(min(pause, time.Until(until)+time.Millisecond)) {
			return
		}
	}
}

// pause waits for d and reports false if the client was closed meanwhile.
func (c *Client) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stopped:
		return false
	}
}
