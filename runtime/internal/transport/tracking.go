package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A tracker makes the server report when another program changes a key that this process holds.
//
// The connection that subscribes does that too, by CLIENT TRACKING: the server remembers which keys were read over it, and reports,
// once, when another connection changes one of them. Leases are renewed over this one, so each renewal is such a read.
// Locking and unlocking, over the shared connection, pay nothing. A message is a hint: the lease is confirmed then.
//
// The hub makes the connection when the client holds or waits for the first time, and makes another one when it breaks. It is
// a dedicated connection of the client that sends all other commands, not one of a second client: so it needs no address and
// no password, and a client that the user made has it too.
//
// Without the connection, because it broke, is mute or the server refuses to report, no lease is lost: leases are renewed over the
// shared one, and a change is noticed then.
type tracker struct {
	link   *link
	hub    *hub.Hub
	loop   sync.WaitGroup
	memory atomic.Int32 // which keys of a script the server remembers, see memoryAll

	mu      sync.Mutex // guards the rest
	stage   trackingStage
	adopted *tracked // the present connection; nil while there is none
	silent  bool     // it was logged that the server does not report changes
}

// A trackingStage says whether servers are asked to report changes.
type trackingStage uint8

const (
	trackingIdle trackingStage = iota // there was nothing to track yet
	trackingOn                        // there was
	trackingOff                       // it is switched off, or the client is closed
)

// A tracked is a connection on which the server reports changes, or is to.
type tracked struct {
	tracker *tracker
	conn    rueidis.DedicatedClient
	servers string        // that the client had before it was made
	gone    chan struct{} // closed when the hub does not use it any more
	behind  atomic.Bool   // another connection has answered a later request, and this one has a while for its answer
	pending pending

	// tracker.mu guards these:
	stage  trackedStage
	missed map[string]bool // keys that were renewed over another connection, since this one was late with an answer
}

// A trackedStage says how far a connection is.
type trackedStage uint8

const (
	trackedIdle      trackedStage = iota // there was nothing to track yet
	trackedAsking                        // the server is asked to report changes
	trackedReporting                     // it does
	trackedOver                          // the connection is broken, or replaced
)

// Which keys of a script a server remembers that reports changes.
const (
	memoryAll        int32 = iota // all that the script is called with, at each read of one
	memoryReads                   // those that the script reads
	memoryAfter                   // all, but for scripts that run without tracking, see [tracker.renew]
	memoryAllRefused              // all: a permission for the other way is missing
)

// remembersReads reports whether a server that says so of itself remembers of a script the keys that it reads: Redis from 7.2 on, and
// Valkey. Others remember all keys that the script is called with, at each read.
func remembersReads(server, version string) bool {
	if server == "valkey" {
		return true
	}
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major > 7 || major == 7 && minor >= 2)
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

// noTracking says that the server will not report changes, which is not expected to pass.
type noTracking struct{ error }

func (e noTracking) Unwrap() error { return e.error }

// begin returns the connection on which the server reports changes. If there is none it returns nil, and has the server begin to
// report them as soon as there is a connection that subscribes.
func (t *tracker) begin() *tracked {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == trackingIdle {
		t.stage = trackingOn
	}
	if w := t.adopted; w != nil && t.stage == trackingOn && w.stage == trackedIdle {
		w.start()
		return nil
	}
	return t.reporting()
}

// reporting returns the connection on which the server reports changes, or nil. The caller holds t.mu.
func (t *tracker) reporting() *tracked {
	w := t.adopted
	switch {
	case t.stage == trackingOff || w == nil || w.stage != trackedReporting:
		return nil
	case t.link.servers() != w.servers:
		w.replace(errMoved)
		return nil
	}
	return w
}

// start makes the server report changes on the connection. The caller holds tracker.mu.
func (w *tracked) start() {
	w.stage = trackedAsking
	w.tracker.loop.Go(w.work)
}

// tells says whether the server reports changes, and makes it begin to if it does not.
func (t *tracker) tells() bool { return t.begin() != nil }

// settle notes the outcome of a request over the connection. One that is well has the keys read over it that were renewed over another
// connection. One that is broken, which the hub learns by itself, gets no more requests.
func (w *tracked) settle(err error) {
	if _, answered := rueidis.IsRedisErr(err); answered {
		return
	}
	w.tracker.mu.Lock()
	if err != nil {
		w.stage = trackedOver
		w.tracker.mu.Unlock()
		return
	}
	w.tracker.say(nil)
	w.tracker.mu.Unlock()
	w.reread()
}

// reread has the keys renewed at once that were renewed over another connection, so that they are read over this one.
func (w *tracked) reread() {
	w.tracker.mu.Lock()
	missed := w.missed
	w.missed = nil
	w.tracker.mu.Unlock()
	if missed != nil {
		w.tracker.link.cfg.User.Recheck(func(key string) bool { return missed[key] })
	}
}

// adopt makes the server report changes on a connection that subscribes, if there was something to track, else as soon as
// there is. It returns the channel that is readable when the connection breaks, or nil if tracking is off.
func (t *tracker) adopt(conn rueidis.DedicatedClient, servers string) (w *tracked, broken <-chan error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == trackingOff {
		return nil, nil
	}
	w = &tracked{tracker: t, conn: conn, servers: servers, gone: make(chan struct{})}
	t.adopted = w
	broken = conn.SetOnInvalidations(t.changed)
	if t.stage == trackingOn {
		w.start()
	}
	return w, broken
}

// leave notes that the hub does not use the connection any more.
func (w *tracked) leave() {
	t := w.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.gone:
		return
	default:
		close(w.gone)
	}
	if t.adopted != w {
		return
	}
	t.adopted = nil
	if t.stage == trackingOn {
		t.link.cfg.User.LookFirst(0) // no server would report changes of the read keys
	}
}

// replace makes the hub replace the connection, which is not broken, unless that has been done. The caller holds tracker.mu.
func (w *tracked) replace(err error) {
	t := w.tracker
	if t.adopted != w || w.stage != trackedReporting {
		return
	}
	w.stage = trackedOver
	t.say(err)
	t.hub.Reconnect()
}

// fallBehind notes the keys of a command that went over another connection, since this one was late with an answer. When this one
// answers, they are read over it. The hub replaces this connection if it does not answer soon. fallBehind does not block.
func (w *tracked) fallBehind(keys []string, patience time.Duration) {
	t := w.tracker
	t.mu.Lock()
	if w.missed == nil {
		w.missed = map[string]bool{}
	}
	for _, key := range keys {
		w.missed[key] = true
	}
	t.mu.Unlock()
	if !w.pending.late(patience) { // it has answered meanwhile
		w.reread()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == trackingOff || !w.behind.CompareAndSwap(false, true) {
		return
	}
	oldest := w.pending.oldest()
	t.loop.Go(func() {
		defer w.behind.Store(false)
		if t.link.pause(graceBehind) && !w.pending.oldest().After(oldest) {
			t.mu.Lock()
			defer t.mu.Unlock()
			w.replace(errBehind)
		}
	})
}

// work makes the server report changes. It tries again while the server refuses and the connection is well.
func (w *tracked) work() {
	t := w.tracker
	for failures := 0; ; failures++ {
		err := t.track(w.conn)
		if err == nil {
			t.mu.Lock()
			w.stage = trackedReporting
			t.mu.Unlock()
			t.link.cfg.User.LookFirst(FirstLook)
			t.link.cfg.User.Recheck(nil) // so that all that is held is read over it
			return
		}
		t.mu.Lock()
		if !errors.Is(err, rueidis.ErrDedicatedClientRecycled) { // the connection is over, which the hub says
			t.say(err)
		}
		t.mu.Unlock()
		t.link.cfg.User.LookFirst(0)
		wait := min(50*time.Millisecond<<min(failures, 7), 5*time.Second)
		if _, ok := errors.AsType[noTracking](err); ok {
			wait = time.Minute // for a permission that is given
		}
		if !pause(wait, t.link.cfg.Stopped, w.gone) {
			return
		}
	}
}

// track makes the server report changes.
func (t *tracker) track(conn rueidis.DedicatedClient) error {
	hello, err := conn.Do(context.Background(), conn.B().Hello().Build()).AsMap()
	if err != nil {
		return forGood(err)
	}
	proto := hello["proto"]
	if version, err := proto.AsInt64(); err != nil || version < 3 {
		return noTracking{errNoPush}
	}
	server, version := hello["server"], hello["version"]
	is, _ := server.ToString()
	of, _ := version.ToString()
	if remembersReads(is, of) {
		t.memory.Store(memoryReads)
	} else {
		t.memory.Store(memoryAll)
	}
	for _, reply := range conn.DoMulti(context.Background(),
		conn.B().ClientTracking().Off().Build(), // the user's client may cache, and so track in another way
		conn.B().ClientTracking().On().Optout().Noloop().Build()) {
		if err := reply.Error(); err != nil {
			return forGood(err)
		}
	}
	return nil
}

// forGood marks what the server refuses, unless that is known to pass.
func forGood(err error) error {
	if _, answered := rueidis.IsRedisErr(err); answered && !Passing(err) {
		return noTracking{err}
	}
	return err
}

// close waits for what works on connections, which end with the client.
func (t *tracker) close() {
	t.mu.Lock()
	t.stage = trackingOff
	t.mu.Unlock()
	t.loop.Wait()
}

// say logs whether the server reports changes, when that changes while the client is not stopped. The caller holds t.mu.
func (t *tracker) say(err error) {
	switch silent := err != nil; {
	case silent == t.silent || silent && t.link.stopped():
		return
	case silent:
		t.link.cfg.Logger.Info("lockgen: the server sends no messages about changes to held keys; the next renewal notices them", "error", err)
	default:
		t.link.cfg.Logger.Info("lockgen: the server sends messages about changes to held keys again")
	}
	t.silent = err != nil
}

// changed is called when somebody else changed keys that were read over the tracked connection, or, with nil, when all keys may
// have changed: the server was flushed, or the connection broke. It does not block.
func (t *tracker) changed(keys []rueidis.RedisMessage) {
	var names []string
	for i := range keys {
		if name, err := keys[i].ToString(); err == nil {
			names = append(names, name)
		}
	}
	if keys == nil || names != nil {
		t.link.cfg.User.Changed(names)
	}
}

// beside sends a command over the tracked connection, once, if there is one and it answers. It does not have the server report changes: a
// client that holds nothing whose changes matter may not be permitted to ask for that.
func (t *tracker) beside(cmd protocol.Command) (reply rueidis.RedisResult, ok bool) {
	t.mu.Lock()
	w := t.reporting()
	t.mu.Unlock()
	if w == nil {
		return reply, false
	}
	answered, ok := w.pending.begin(t.link.Patience())
	if !ok {
		return reply, false
	}
	defer w.awaits()()
	reply = t.link.broken(t.link.runOn(context.Background(), w.conn, cmd))
	answered()
	w.settle(reply.Error())
	return reply, true
}

// awaits has answersElsewhere called when a request over the connection that is sent now is late, and the server has answered another one
// since, until stop is called: there may be no further request that would find it out.
func (w *tracked) awaits() (stop func() bool) {
	l, sent := w.tracker.link, monotonic.Now()
	return time.AfterFunc(l.Patience()+time.Millisecond, func() {
		if monotonic.Time(l.spoke.Load()).After(sent) {
			w.tracker.answersElsewhere()
		}
	}).Stop
}

// answersElsewhere notes that the server has answered over another connection than the tracked one. If that is late with an answer, it is
// replaced unless it answers soon: a mute connection brings no messages either, such as that of a grant.
func (t *tracker) answersElsewhere() {
	t.mu.Lock()
	w := t.reporting()
	t.mu.Unlock()
	if patience := t.link.Patience(); w != nil && w.pending.late(patience) {
		w.fallBehind(nil, patience)
	}
}
