package lockrt

import (
	"context"
	hexes "encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/deadlock"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A DeadlockError is the error of a call that the client ended to break a deadlock, see [Options.BreakDeadlocks]. It
// matches [ErrDeadlock].
type DeadlockError struct{ Deadlock Deadlock }

// Error names the key, the process, the name and the time of each call of the circle.
func (e *DeadlockError) Error() string { return ErrDeadlock.Error() + ": " + e.Deadlock.String() }

// Unwrap returns [ErrDeadlock].
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// Deadlocks finds circles of calls that wait for each other. Package deadlock has the rules; this type has the
// knowledge of locks, and the way to other processes, which is their channel.
//
// There is no goroutine and no timer before a call has waited for [Options.DeadlockAfter] under a lease, or another
// process asks.
type deadlocks struct {
	c      *Client
	denied sync.Once      // logs that the client may not look
	began  monotonic.Time // the zero of the detector's clock

	detector *deadlock.Detector         // only the running goroutine uses it
	named    map[uint64]map[string]bool // likewise: by the numbers of calls, their reported circles
	known    map[uint64]knownCall       // likewise: calls that wait, or did a moment ago, by their numbers
	clients  map[string]string          // likewise: ids of processes by their beginnings

	mu      sync.Mutex              // guards the rest
	numbers uint64                  // of calls that wait
	inbox   []string                // messages of other processes
	seen    map[string]foundHolders // the holders that were found last, by their keys
	due     bool                    // it is time to look
	running bool
	ticked  monotonic.Time // when it last looked
	next    monotonic.Time // when to look next, or 0
	timer   *time.Timer
}

// A knownCall is a call of this process that others may refer to.
type knownCall struct {
	ctx  context.Context
	of   DeadlockEvent
	seen monotonic.Time
}

const (
	// deadlockWord begins a message about deadlocks: "deadlock <JSON>".
	deadlockWord = "deadlock "

	// mostUnread is the largest number of unread messages. A message that does not fit is sent
	// again.
	mostUnread = 1000

	// mostHolders is the largest number of holders of a key to ask about. A call that waits for a permit with more
	// holders counts as able to go on.
	mostHolders = 64

	// mostClients is the largest number of processes remembered by the beginnings of their ids.
	mostClients = 1000
)

// interval is the time between two looks.
func (d *deadlocks) interval() time.Duration {
	if after := d.c.opts.DeadlockAfter; after > 0 {
		return after
	}
	return DefaultDeadlockAfter
}

// hear takes a message of another process. It does not block.
func (d *deadlocks) hear(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.inbox) < mostUnread {
		d.inbox = append(d.inbox, text)
	}
	d.start()
}

// look schedules a look: at once, or a little later if the last one was a moment ago.
func (d *deadlocks) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pause := d.interval()/20 - monotonic.Since(d.ticked); !d.ticked.IsZero() && pause > 0 {
		d.wake(pause)
		return
	}
	d.due = true
	d.start()
}

// wake schedules a look within a duration. The caller holds the lock.
func (d *deadlocks) wake(in time.Duration) {
	at := monotonic.Now().Add(in)
	if !d.next.IsZero() && !at.Before(d.next) {
		return
	}
	d.next = at
	if d.timer != nil {
		d.timer.Reset(in)
		return
	}
	d.timer = time.AfterFunc(in, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.next, d.due = 0, true
		d.start()
	})
}

// start starts the work, unless it is under way. The caller holds the lock.
func (d *deadlocks) start() {
	if !d.running && d.c.granting() {
		d.running = true
		d.c.spawn(d.run)
	}
}

// run does the pending work.
func (d *deadlocks) run() {
	for {
		d.mu.Lock()
		texts, due := d.inbox, d.due
		d.inbox, d.due = nil, false
		if len(texts) == 0 && !due || !d.c.granting() {
			d.running = false
			d.mu.Unlock()
			return
		}
		if d.detector == nil {
			d.began = monotonic.Now()
			d.detector = deadlock.New(d.c.wire.UUID, d.interval(), d)
			d.named, d.known, d.clients = map[uint64]map[string]bool{}, map[uint64]knownCall{}, map[string]string{}
		}
		d.mu.Unlock()

		now := func() time.Duration { return monotonic.Since(d.began) + 1 }
		if len(texts) > 0 {
			d.detector.Receive(now(), texts)
		}
		looks := false
		var next time.Duration
		if due && d.c.opts.DeadlockAfter > 0 {
			next, looks = d.detector.Tick(now())
		}
		messages, rest, more := d.detector.Send(now())
		d.send(messages)
		d.mu.Lock()
		if due {
			d.ticked = monotonic.Now()
		}
		if looks {
			d.wake(next)
		}
		if more {
			d.wake(rest)
		}
		d.mu.Unlock()
	}
}

// send publishes messages. The next round repeats a lost one.
func (d *deadlocks) send(messages []deadlock.Message) {
	if len(messages) == 0 {
		return
	}
	commands := make(rueidis.Commands, len(messages))
	for i, m := range messages {
		commands[i] = d.c.rc.B().Publish().Channel(protocol.ProcessChannel(m.To)).Message(deadlockWord + m.Text).Build()
	}
	for _, reply := range d.ask(commands) {
		d.mayNot(reply.Error())
	}
}

// ask sends commands together, and does not wait for long.
func (d *deadlocks) ask(commands rueidis.Commands) []rueidis.RedisResult {
	d.c.net.MarkShared()
	ctx, cancel := d.c.briefly()
	defer cancel()
	return d.c.rc.DoMulti(ctx, commands...)
}

// mayNot logs, once, that a permission is missing.
func (d *deadlocks) mayNot(err error) {
	if err == nil || rueidis.IsRedisNil(err) {
		return
	}
	if why := refused(err); why != err { //nolint:errorlint // refused returns its argument, or more
		d.denied.Do(func() {
			d.c.opts.Logger.Warn("lockgen: deadlocks with other processes are not found", "error", why)
		})
	}
}

// Waits implements deadlock.World.
func (d *deadlocks) Waits() (all []deadlock.Wait) {
	who := d.c.Process()
	at := monotonic.Now()
	d.c.eachWaiting("", func(w *waiter, kind, key string) {
		switch kind {
		case kindSemaphore, kindLatch, kindRedLock:
			return // the holders are unknown
		}
		n := d.number(w)
		e := DeadlockEvent{Kind: Kind(kind), Name: w.Call.Name, Template: w.Call.Of, Key: key}
		if e.Name == "" {
			e.Name = kind
		}
		d.known[n] = knownCall{w.Call.Ctx, e, at}
		all = append(all, deadlock.Wait{
			Call: deadlock.Call{
				ID: deadlock.ID{Process: who.ID, Number: n}, Key: key, Kind: kind, Name: w.Call.Name, Since: w.Call.Since.Std().UnixMicro(),
				Service: who.Name, Host: who.Host, PID: who.PID, Program: who.Program,
			},
			Under: leasesOf(w.Call.Ctx),
			Long:  monotonic.Since(w.Call.Since) >= d.interval(),
			Any:   kind == kindPermit,
		})
	})
	for n, call := range d.known {
		if at.Sub(call.seen) > d.interval() {
			delete(d.known, n)
			delete(d.named, n)
		}
	}
	return all
}

// number returns the number of a waiting call. The caller holds the lock of its contest.
func (d *deadlocks) number(w *waiter) uint64 {
	if n := w.Number.Load(); n != 0 {
		return n
	}
	d.mu.Lock()
	d.numbers++
	n := d.numbers
	d.mu.Unlock()
	w.Number.Store(n)
	return n
}

// leasesOf returns the leases whose contexts ctx is under. Of permits that were acquired together it returns each.
func leasesOf(ctx context.Context) (all []deadlock.Lease) {
	eachLease(ctx, func(t *leaseCore) {
		owner := t.guard.Owner()
		if t.kind() != kindPermit {
			all = append(all, deadlock.Lease{Key: t.key, Owner: owner})
			return
		}
		for ; len(owner) >= idLength; owner = owner[idLength:] {
			all = append(all, deadlock.Lease{Key: t.key, Owner: hexes.EncodeToString([]byte(owner[:idLength]))})
		}
	})
	return all
}

// Holders implements deadlock.World.
//
// A call that waits to read waits for other readers only if a writer is before it, and one that waits for a permit may
// get another one. A call that has just begun to wait does not know that yet, so such holders count after a long wait.
func (d *deadlocks) Holders(of []*deadlock.Wait) [][]deadlock.Holder {
	commands := make(rueidis.Commands, len(of))
	for i, w := range of {
		if w.Any {
			commands[i] = d.c.rc.B().Zrange().Key(protocol.PermitLeases(w.Key)).Min("0").Max(fmt.Sprint(mostHolders)).Build()
		} else {
			commands[i] = d.c.rc.B().Hscan().Key(w.Key).Cursor(0).Count(mostHolders).Build()
		}
	}
	all := make([][]deadlock.Holder, len(of))
	for i, reply := range d.ask(commands) {
		if of[i].Any {
			ids, err := reply.AsStrSlice()
			d.mayNot(err)
			if of[i].Long && len(ids) <= mostHolders {
				all[i] = d.holdersOf(ids)
			}
			continue
		}
		entry, err := reply.AsScanEntry()
		d.mayNot(err)
		all[i] = holdersIn(of[i], entry.Elements)
		d.saw(of[i].Key, foundHolders{holder: d.c.holderAmong(all[i], func(string) bool { return false }), reads: isRead(entry.Elements)})
	}
	return all
}

// holdersIn returns the holders of a lock, by its fields.
func holdersIn(w *deadlock.Wait, fields []string) (all []deadlock.Holder) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "mode" {
			continue
		}
		h := deadlock.Holder{Owner: fields[i]}
		if uuid, ours := protocol.ClientOf(h.Owner); ours {
			h.Process = uuid
		}
		all = append(all, h)
	}
	if isRead(fields) && w.Kind == kindRead && !w.Long {
		return nil
	}
	return all
}

// holdersOf returns the holders of permits. An id begins with digits of its process.
func (d *deadlocks) holdersOf(ids []string) (all []deadlock.Holder) {
	for _, id := range ids {
		h := deadlock.Holder{Owner: hexes.EncodeToString([]byte(id))}
		if len(id) == idLength {
			h.Process = d.clientOf(h.Owner[:2*hintLength])
		}
		all = append(all, h)
	}
	return all
}

// clientOf returns the id of the process that begins with the digits of hint, or "".
func (d *deadlocks) clientOf(hint string) string {
	if own := strings.ReplaceAll(d.c.wire.UUID, "-", ""); strings.HasPrefix(own, hint) {
		return d.c.wire.UUID
	}
	if known, ok := d.clients[hint]; ok {
		return known
	}
	begins := hint[:8] + "-" + hint[8:] + "-8"
	pattern := protocol.ProcessChannel(begins + strings.Repeat("?", 36-len(begins)))
	ctx, cancel := d.c.briefly()
	defer cancel()
	for _, node := range d.c.rc.Nodes() {
		names, err := node.Do(ctx, node.B().PubsubChannels().Pattern(pattern).Build()).AsStrSlice()
		d.mayNot(err)
		if len(names) == 0 {
			continue
		}
		if len(d.clients) >= mostClients {
			clear(d.clients)
		}
		d.clients[hint] = strings.TrimPrefix(names[0], protocol.ProcessChannel(""))
		return d.clients[hint]
	}
	return ""
}

// Found implements deadlock.World: it reports a circle for a call, once, and ends the call if that breaks the circle.
func (d *deadlocks) Found(number uint64, circle deadlock.Circle) {
	found := deadlockOf(circle)
	key := found.String()
	if d.named[number][key] {
		return
	}
	victim := circle.Victim()
	broken := d.c.opts.BreakDeadlocks && victim.Number == number && victim.Process == d.c.wire.UUID
	call, ok := d.known[number]
	if !ok {
		return
	}
	ended := false
	if broken {
		var err error = &DeadlockError{found}
		d.c.eachWaiting(call.of.Key, func(w *waiter, _, _ string) {
			if w.Number.Load() == number {
				w.Broken.Store(&err)
				w.Poke()
				ended = true
			}
		})
	}
	if d.named[number] == nil {
		d.named[number] = map[string]bool{}
	}
	d.named[number][key] = true
	ctx, e := call.ctx, call.of
	e.Deadlock, e.Broken = found, ended
	d.c.opts.Logger.WarnContext(ctx, "lockgen: a deadlock", "kind", e.Kind, "key", e.Key, "name", e.Name, "circle", found.String(), "broken", ended)
	if hook := d.c.opts.Hooks.Deadlock; hook != nil {
		d.c.reports.Later(func() { hook(ctx, e) }, false)
	}
}

// deadlockOf returns a circle in the form for users.
func deadlockOf(circle deadlock.Circle) Deadlock {
	var found Deadlock
	victim := circle.Victim()
	for i, call := range circle.Calls {
		if call.ID == victim {
			found.Victim = i
		}
		found.Calls = append(found.Calls, DeadlockedCall{
			Key: call.Key, Kind: Kind(call.Kind), Name: call.Name, Since: time.UnixMicro(call.Since),
			Process: Process{ID: call.Process, Name: call.Service, Host: call.Host, PID: call.PID, Program: call.Program},
		})
	}
	return found
}
