package lockrt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A tracker has the server say when a key that this process holds is changed by somebody else.
//
// It has a connection of its own, with CLIENT TRACKING: the server remembers which keys were read
// over it, and tells, once, when one of them is changed over another connection. Leases are renewed
// over this one, so each renewal is such a read, and locking and unlocking, over the client's other
// connection, pay nothing. What is told is a hint: whether a lease is lost is asked.
//
// It is a dedicated connection of the client that sends all other commands, not one of a second
// client: so it needs no address and no password, and a client that the user made has it too.
//
// Without the connection, because it broke, is mute or was refused, no lease is lost: leases are
// renewed over the other one, and what is changed is noticed then.
type tracker struct {
	c    *Client
	loop sync.WaitGroup

	mu      sync.Mutex              // guards the rest
	conn    rueidis.DedicatedClient // the present one, whatever its state; nil while there is none
	watched *watched                // the present one, if it is told of changes
	running bool                    // there is a goroutine that connects
	closed  bool                    // or switched off
	silent  bool                    // the log was told that there are no changes told
}

// watched is a connection that is told of changes.
type watched struct {
	conn   rueidis.DedicatedClient
	nodes  string        // the servers that the client had before it was made
	failed chan error    // at most one error: it is not to be used any more
	behind chan struct{} // at most one token: the other connection has answered a later request
	owing  owing

	worked bool // a request was answered; guarded by tracker.mu
}

// firstLook is how long after its grant a lease is asked about for the first time, over the watched
// connection, and so is watched from then on. Whoever unlocks before pays nothing.
const firstLook = 8 * time.Millisecond

// graceBehind is how long a connection has to come up with an answer that another one, asked later,
// has given already.
const graceBehind = 250 * time.Millisecond

var (
	errNoPush = errors.New("the connection does not speak RESP3")
	errMoved  = errors.New("the client talks to another server now")
	errBehind = errors.New("no answer, though the same server answers over another connection")
)

// noTracking says that the server will not tell of changes, which is not expected to pass.
type noTracking struct{ error }

func (e noTracking) Unwrap() error { return e.error }

// run sends a script as Client.runSoon does: over the watched connection if that is well, else, and also
// if it fails there, over the other one. A connection that has owed an answer for longer than patience
// is not asked. Scripts are sent twice then, as they may be.
func (t *tracker) run(cmd protocol.Command, patience time.Duration) rueidis.RedisResult {
	w := t.begin()
	if w == nil {
		return t.c.runSoon(cmd, patience)
	}
	var failure error
	if answered, ok := w.owing.begin(patience); ok {
		reply := t.c.runOn(w.conn, cmd)
		answered()
		if failure = reply.Error(); failure == nil {
			t.answered(w)
			return reply
		}
		if _, ok := rueidis.IsRedisErr(failure); !ok {
			w.fail(failure)
		}
	}
	reply := t.c.runSoon(cmd, patience)
	switch {
	case reply.Error() != nil: // the other connection does no better
	case failure != nil:
		w.fail(failure)
	default:
		select {
		case w.behind <- struct{}{}:
		default:
		}
	}
	return reply
}

// begin returns the watched connection, or nil if there is none.
func (t *tracker) begin() *watched {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watched
	switch {
	case w == nil:
		if !t.running && !t.closed {
			t.running = true
			t.loop.Go(t.work)
		}
		return nil
	case t.c.nodes() != w.nodes:
		w.fail(errMoved)
		return nil
	}
	return w
}

// start has a connection made, if there is none. The caller holds t.mu.
func (t *tracker) start() {
	if !t.running && !t.closed {
		t.running = true
		t.loop.Go(t.work)
	}
}

// tells reports whether the server tells of changes, and has it begin to if it does not: a server that is flushed forgets
// who waits, and tells nobody else of it.
func (t *tracker) tells() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched == nil {
		t.start()
	}
	return t.watched != nil
}

// answered notes an answer.
func (t *tracker) answered(w *watched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.worked = true
	t.say(nil)
}

// fail has the connection replaced. It does not block.
func (w *watched) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// work keeps a connection, and makes another one when it fails, as long as there is something held or
// waited for.
func (t *tracker) work() {
	for failures := 0; ; failures++ {
		worked, err := t.watch()
		t.c.watchdog.First(0) // nobody would tell of what is read
		if worked {
			failures = 0
		}
		t.broke(err)
		pause := min(50*time.Millisecond<<min(failures, 7), 5*time.Second)
		if _, ok := errors.AsType[noTracking](err); ok {
			pause = time.Minute // for a server that is replaced, or a permission that is given
		}
		if !t.c.pause(pause) || t.rest() {
			return
		}
	}
}

// broke tells the log that there is no connection, unless that is as it should be.
func (t *tracker) broke(err error) {
	select {
	case <-t.c.stopped:
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.say(err)
	}
}

// rest ends the work if nothing is held or waited for, until something is for long enough to be looked at, or somebody waits.
func (t *tracker) rest() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && (t.c.holding() || t.c.counts.waiting.Load() > 0) {
		return false
	}
	t.running = false
	t.c.watchdog.First(firstLook)
	return true
}

// watch makes a connection and keeps it until it fails or the client is closed. It reports whether
// anything was answered over it.
func (t *tracker) watch() (worked bool, err error) {
	w := &watched{
		nodes:  t.c.nodes(), // before the connection: so it is noticed if they change meanwhile
		failed: make(chan error, 1),
		behind: make(chan struct{}, 1),
	}
	if w.conn, _ = t.c.dedicate(t.c.rc, 0); w.conn == nil {
		return false, rueidis.ErrClosing
	}
	defer w.conn.Close()
	t.mu.Lock()
	t.conn = w.conn
	closed := t.closed
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conn, t.watched = nil, nil
		worked = w.worked
	}()
	if closed {
		return false, rueidis.ErrClosing
	}
	broken, err := t.track(w.conn)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	t.watched = w
	t.mu.Unlock()
	t.c.watchdog.First(firstLook)
	t.c.watchdog.Recheck() // so that all that is held is read over it
	return false, t.serve(w, broken)
}

// track has the server tell of changes.
func (t *tracker) track(conn rueidis.DedicatedClient) (broken <-chan error, err error) {
	hello, err := conn.Do(context.Background(), conn.B().Hello().Build()).AsMap()
	if err != nil {
		return nil, forGood(err)
	}
	proto := hello["proto"]
	if version, err := proto.AsInt64(); err != nil || version < 3 {
		return nil, noTracking{errNoPush}
	}
	broken = conn.SetOnInvalidations(t.c.changed)
	for _, reply := range conn.DoMulti(context.Background(),
		conn.B().ClientTracking().Off().Build(), // the user's client may cache, and so track in another way
		conn.B().ClientTracking().On().Optout().Noloop().Build()) {
		if err := reply.Error(); err != nil {
			return nil, forGood(err)
		}
	}
	return broken, nil
}

// forGood marks what the server refuses, unless that is known to pass.
func forGood(err error) error {
	if _, answered := rueidis.IsRedisErr(err); answered && !passing(err) {
		return noTracking{err}
	}
	return err
}

// serve waits until the connection fails or the client is closed.
func (t *tracker) serve(w *watched, broken <-chan error) error {
	for {
		select {
		case err := <-broken:
			return err
		case err := <-w.failed:
			return err
		case <-w.behind:
			oldest := w.owing.oldest()
			if !t.c.pause(graceBehind) {
				return rueidis.ErrClosing
			}
			if !w.owing.oldest().After(oldest) {
				return errBehind
			}
		case <-t.c.stopped:
			return rueidis.ErrClosing
		}
	}
}

// close ends the connection and waits for what works on it. The client is closed already.
func (t *tracker) close() {
	t.mu.Lock()
	t.closed = true
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		conn.Close() // a call under way returns
	}
	t.loop.Wait()
}

// say tells the log whether changes are told, when that changes. The caller holds t.mu.
func (t *tracker) say(err error) {
	if silent := err != nil; silent != t.silent {
		t.silent = silent
		if silent {
			t.c.opts.Logger.Info("lockgen: the server does not tell of changes to held keys; they are noticed at the next renewal", "error", err)
		} else {
			t.c.opts.Logger.Info("lockgen: the server tells of changes to held keys again")
		}
	}
}

// changed is called when somebody else changed keys that were read over the watched connection, or, with
// nil, when all may be changed: the server was flushed, or the connection broke. Who waits asks then, since those in line
// are forgotten with the rest. It does not block.
func (c *Client) changed(keys []rueidis.RedisMessage) {
	if keys == nil {
		c.watchdog.Recheck()
		c.lookAll(func(connection) bool { return true })
		c.mu.Lock()
		counting := slices.Collect(maps.Values(c.turnstiles))
		c.mu.Unlock()
		for _, t := range counting {
			t.wake()
		}
		return
	}
	for i := range keys {
		key, err := keys[i].ToString()
		if err != nil {
			continue
		}
		c.mu.Lock()
		h, rw, fair := c.homes[key], c.rws[key], c.fairs[key]
		c.mu.Unlock()
		if rw != nil {
			rw.changed()
		}
		if fair != nil {
			if hd := fair.held(); hd != nil {
				c.watchdog.Look(&hd.guard)
			}
		}
		if h == nil {
			continue // it was given back meanwhile
		}
		if hd := h.held(); hd != nil {
			c.watchdog.Look(&hd.guard)
		}
	}
}

// nodes names the servers that the client talks to.
func (c *Client) nodes() string {
	return strings.Join(slices.Sorted(maps.Keys(c.rc.Nodes())), " ")
}

// holding reports whether this process has anything in Redis.
func (c *Client) holding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds > 0
}
