package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A tracker makes the server report when another client changes a key that this process holds.
//
// It has a connection of its own, with CLIENT TRACKING: the server remembers which keys were read over it, and reports,
// once, when one of them is changed over another connection. Leases are renewed over this one, so each renewal is such
// a read. Locking and unlocking, over the shared connection, pay nothing. A message is a hint: the lease is confirmed
// then.
//
// It is a dedicated connection of the client that sends all other commands, not one of a second client: so it needs no
// address and no password, and a client that the user made has it too.
//
// Without the connection, because it broke, is mute or was refused, no lease is lost: leases are renewed over the shared
// one, and a change is noticed then.
type tracker struct {
	net  *Transport
	loop sync.WaitGroup

	mu      sync.Mutex              // guards the rest
	conn    rueidis.DedicatedClient // the present one, in any state; nil while there is none
	watched *watched                // the present one, if the server reports changes on it
	running bool                    // there is a goroutine that connects
	closed  bool                    // or switched off
	silent  bool                    // it was logged that the server does not report changes
}

// watched is a connection on which the server reports changes.
type watched struct {
	conn    rueidis.DedicatedClient
	servers string        // that the client had before it was made
	failed  chan error    // at most one error: it is not to be used any more
	behind  chan struct{} // at most one token: the other connection has answered a later request
	pending pending

	worked bool // a request was answered; guarded by tracker.mu
}

// FirstLook is how long after its grant a lease is confirmed for the first time, over the tracked connection, which
// reports changes from then on. A call that unlocks before pays nothing.
const FirstLook = 8 * time.Millisecond

// graceBehind is how long a connection has to come up with an answer that another one, asked later,
// has given already.
const graceBehind = 250 * time.Millisecond

var (
	errNoPush = errors.New("the connection does not speak RESP3")
	errMoved  = errors.New("the client talks to another server now")
	errBehind = errors.New("no answer, though the same server answers over another connection")
)

// noTracking means that the server will not report changes, which is not expected to pass.
type noTracking struct{ error }

func (e noTracking) Unwrap() error { return e.error }

// run sends a command as runSoon does: over the tracked connection if that is well, else, and also if it fails there, over the
// shared one. A connection that has taken longer than patience for an answer is avoided. The command may be sent twice then.
func (t *tracker) run(cmd protocol.Command, patience time.Duration) rueidis.RedisResult {
	w := t.begin()
	if w == nil {
		return t.net.runSoon(cmd, patience)
	}
	var failure error
	if answered, ok := w.pending.begin(patience); ok {
		reply := t.net.runOn(w.conn, cmd)
		answered()
		if failure = reply.Error(); failure == nil {
			t.answered(w)
			return reply
		}
		if _, ok := rueidis.IsRedisErr(failure); !ok {
			w.fail(failure)
		}
	}
	reply := t.net.runSoon(cmd, patience)
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
	case t.net.servers() != w.servers:
		w.fail(errMoved)
		return nil
	}
	return w
}

// start starts making a connection, if there is none. The caller holds t.mu.
func (t *tracker) start() {
	if !t.running && !t.closed {
		t.running = true
		t.loop.Go(t.work)
	}
}

// tells reports whether the server reports changes, and makes it begin to if it does not.
func (t *tracker) tells() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched == nil {
		t.start()
	}
	return t.watched != nil
}

// answered notes that w is well.
func (t *tracker) answered(w *watched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.worked = true
	t.say(nil)
}

// fail replaces the connection. It does not block.
func (w *watched) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// work keeps a connection, and makes another one when it fails, as long as the client holds or waits for something.
func (t *tracker) work() {
	for failures := 0; ; failures++ {
		worked, err := t.watch()
		t.net.cfg.User.LookFirst(0) // no server would report changes of the read keys
		if worked {
			failures = 0
		}
		t.broke(err)
		pause := min(50*time.Millisecond<<min(failures, 7), 5*time.Second)
		if _, ok := errors.AsType[noTracking](err); ok {
			pause = time.Minute // for a server that is replaced, or a permission that is granted
		}
		if !t.net.pause(pause) || t.rest() {
			return
		}
	}
}

// broke logs that there is no connection, unless the client has stopped.
func (t *tracker) broke(err error) {
	select {
	case <-t.net.cfg.Stopped:
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.say(err)
	}
}

// rest ends the work if the client holds nothing and waits for nothing.
func (t *tracker) rest() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && t.net.cfg.User.Busy() {
		return false
	}
	t.running = false
	t.net.cfg.User.LookFirst(FirstLook)
	return true
}

// watch makes a connection and keeps it until it fails or the client is closed. It reports whether
// anything was answered over it.
func (t *tracker) watch() (worked bool, err error) {
	w := &watched{
		servers: t.net.servers(), // before the connection: so it is noticed if they change meanwhile
		failed:  make(chan error, 1),
		behind:  make(chan struct{}, 1),
	}
	if w.conn = t.net.dedicate(t.net.rc, 0); w.conn == nil {
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
	t.net.cfg.User.LookFirst(FirstLook)
	t.net.cfg.User.Recheck(nil) // so that all held keys are read over it
	return false, t.serve(w, broken)
}

// track makes the server report changes.
func (t *tracker) track(conn rueidis.DedicatedClient) (broken <-chan error, err error) {
	hello, err := conn.Do(context.Background(), conn.B().Hello().Build()).AsMap()
	if err != nil {
		return nil, forGood(err)
	}
	proto := hello["proto"]
	if version, err := proto.AsInt64(); err != nil || version < 3 {
		return nil, noTracking{errNoPush}
	}
	broken = conn.SetOnInvalidations(t.net.changed)
	for _, reply := range conn.DoMulti(context.Background(),
		conn.B().ClientTracking().Off().Build(), // the user's client may cache, and so track in another way
		conn.B().ClientTracking().On().Optout().Noloop().Build()) {
		if err := reply.Error(); err != nil {
			return nil, forGood(err)
		}
	}
	return broken, nil
}

// forGood marks a refusal of the server as permanent, unless it is known to pass.
func forGood(err error) error {
	if _, answered := rueidis.IsRedisErr(err); answered && !Passing(err) {
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
			oldest := w.pending.oldest()
			if !t.net.pause(graceBehind) {
				return rueidis.ErrClosing
			}
			if !w.pending.oldest().After(oldest) {
				return errBehind
			}
		case <-t.net.cfg.Stopped:
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

// say logs whether the server reports changes, when that changes. The caller holds t.mu.
func (t *tracker) say(err error) {
	if silent := err != nil; silent != t.silent {
		t.silent = silent
		if silent {
			t.net.cfg.Logger.Info("lockgen: the server sends no messages about changes to held keys; the next renewal notices them", "error", err)
		} else {
			t.net.cfg.Logger.Info("lockgen: the server sends messages about changes to held keys again")
		}
	}
}

// changed handles a change by another client of keys that were read over the tracked connection, or, with nil, of
// possibly all keys: the server was flushed, or the connection broke. It does not block.
func (t *Transport) changed(keys []rueidis.RedisMessage) {
	var names []string
	for i := range keys {
		if name, err := keys[i].ToString(); err == nil {
			names = append(names, name)
		}
	}
	if keys == nil || names != nil {
		t.cfg.User.Changed(names)
	}
}
