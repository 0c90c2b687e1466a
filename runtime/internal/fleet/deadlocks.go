package fleet

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/deadlock"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A deadlocks finds circles of calls that wait for each other. Package deadlock has the rules; this type has the
// knowledge of locks, and the way to other processes, which is their channel. It looks when a call has waited under a lease for the
// time between two looks, and when another process asks.
type deadlocks struct {
	cfg    *Config
	runner deadlock.Runner
	denied sync.Once // logs that the process may not look

	reported map[uint64]map[string]bool // by the numbers of calls, their reported circles; only the goroutine of the Runner uses it
	known    map[uint64]knownCall       // likewise: calls that wait, or did a moment ago, by their numbers
	clients  map[string]string          // likewise: ids of processes by the patterns of their channels

	mu      sync.Mutex       // guards the rest
	numbers uint32           // of calls that wait
	seen    map[string]found // the holders that were found last, by their keys
}

// A knownCall is a call of this process that others may refer to.
type knownCall struct {
	Call

	since time.Time      // the date at which it began to wait: one for all messages and reports
	until monotonic.Time // when it is forgotten
}

const (
	// deadlockWord begins a message about deadlocks: "deadlock <JSON>".
	deadlockWord = "deadlock "

	// mostHolders is the largest number of holders of a key to ask about. A call that waits for a permit with more
	// holders counts as able to go on.
	mostHolders = 64

	// mostClients is the largest number of processes remembered by the beginnings of their ids.
	mostClients = 1000
)

func (d *deadlocks) init(cfg *Config) {
	d.cfg, d.reported, d.known = cfg, map[uint64]map[string]bool{}, map[uint64]knownCall{}
	d.clients, d.seen = map[string]string{}, map[string]found{}
	d.runner.Init(deadlock.Config{
		Self: cfg.UUID, Interval: cfg.Interval, Answers: cfg.Answers, World: d, Send: d.send, Spawn: cfg.Spawn, Closing: cfg.Closing,
	})
}

// LookForDeadlocks looks soon whether a call of this process is in a deadlock. It does not block.
func (d *deadlocks) LookForDeadlocks() { d.runner.Look() }

// send publishes messages. The next round repeats a lost one.
func (d *deadlocks) send(messages []deadlock.Message) {
	channels, texts := make([]string, len(messages)), make([]string, len(messages))
	for i, m := range messages {
		channels[i], texts[i] = protocol.ProcessChannel(m.To), deadlockWord+m.Text
	}
	_, err := d.cfg.Net.Publish(channels, texts)
	d.mayNot(err)
}

// mayNot logs, once, that a permission is missing.
func (d *deadlocks) mayNot(err error) {
	if why := d.cfg.Net.Refusal(err); why != nil {
		d.denied.Do(func() {
			d.cfg.Logger.Warn("lockgen: deadlocks with other processes are not found", "error", why)
		})
	}
}

// Waits implements deadlock.World.
func (d *deadlocks) Waits() (all []deadlock.Wait) {
	who, at := d.cfg.Process(), monotonic.Now()
	until := at.Add(d.cfg.Interval)
	var under []context.Context
	d.cfg.Locks.EachWaiting("", func(c Call) {
		if !HasHolder(c.Kind) && c.Kind != observe.KindPermit {
			return // the holders are unknown
		}
		n := d.number(c)
		known := d.known[n]
		if known.since.IsZero() {
			known.since = c.Since.Date()
		}
		known.Call, known.until = c, max(until, known.until)
		d.known[n] = known
		all = append(all, deadlock.Wait{
			Call: deadlock.Call{
				ID: deadlock.ID{Process: who.ID, Number: n}, Key: deadlock.Key(c.Key), Kind: string(c.Kind), Name: c.Name, Since: known.since.UnixMicro(),
				Service: who.Name, Host: who.Host, PID: who.PID, Program: who.Program,
			},
			Long: at.Sub(c.Since) >= d.cfg.Interval,
			Any:  c.Kind == observe.KindPermit,
		})
		under = append(under, c.Ctx)
	})
	for i := range all { // not sooner: a permit above a call may have the lock of what the call waits for
		all[i].Under = d.leasesAbove(under[i])
	}
	for n, call := range d.known {
		if call.until.Before(at) {
			delete(d.known, n)
			delete(d.reported, n)
		}
	}
	return all
}

// Keep implements deadlock.World.
func (d *deadlocks) Keep(number uint64) {
	if call, ok := d.known[number]; ok {
		call.until = monotonic.Now().Add(deadlock.Memory(d.cfg.Interval))
		d.known[number] = call
	}
}

// number returns the number of a waiting call. The caller holds the lock of what the call waits for.
func (d *deadlocks) number(c Call) uint64 {
	if n := c.Number.Load(); n != 0 {
		return uint64(n)
	}
	if d.numbers++; d.numbers == 0 { // after billions of calls that are over
		d.numbers++
	}
	c.Number.Store(d.numbers)
	return uint64(d.numbers)
}

// leasesAbove returns the leases whose contexts ctx is under. Of permits that were acquired together it returns each.
func (d *deadlocks) leasesAbove(ctx context.Context) (all []deadlock.Lease) {
	d.cfg.Locks.EachAbove(ctx, func(l *watchdog.Lease) {
		for _, owner := range ownersOf(l) {
			all = append(all, deadlock.Lease{Key: deadlock.Key(l.Key()), Owner: owner})
		}
	})
	return all
}

// Holders implements deadlock.World.
//
// A call that waits to read waits for other readers only if a writer is before it, and one that waits for a permit may
// get another one. A call that has just begun to wait does not know that yet, so such holders count after a long wait.
func (d *deadlocks) Holders(of []*deadlock.Wait) [][]deadlock.Holder {
	places := make([]protocol.Owners, len(of))
	for i, w := range of {
		places[i] = protocol.Owners{Key: string(w.Key), Permits: w.Any}
	}
	replies, err := d.cfg.Net.Owners(places, mostHolders)
	d.mayNot(err)
	all := make([][]deadlock.Holder, len(of))
	for i, w := range of {
		if w.Any {
			if w.Long && len(replies[i]) <= mostHolders {
				all[i] = d.holdersOf(replies[i])
			}
			continue
		}
		holders, reads := holdersIn(replies[i])
		if w.Long || !reads || observe.Kind(w.Kind) != observe.KindRead {
			all[i] = holders
		}
		d.saw(string(w.Key), found{holder: d.cfg.holderAmong(all[i], nil), reads: reads})
	}
	return all
}

// holdersOf returns the holders of permits. An id begins with digits of its process.
func (d *deadlocks) holdersOf(ids []string) (all []deadlock.Holder) {
	for _, id := range ids {
		h := deadlock.Holder{Owner: hex.EncodeToString([]byte(id))}
		if len(id) == protocol.PermitLength {
			h.Process = d.clientOf(h.Owner)
		}
		all = append(all, h)
	}
	return all
}

// clientOf returns the id of the process that has a permit, or "".
func (d *deadlocks) clientOf(permit string) string {
	pattern, own := protocol.PermitClients(permit, d.cfg.UUID)
	if own {
		return d.cfg.UUID
	}
	if known, ok := d.clients[pattern]; ok {
		return known
	}
	names, err := d.cfg.Net.Channels(pattern)
	d.mayNot(err)
	if len(names) == 0 {
		return ""
	}
	if len(d.clients) >= mostClients {
		clear(d.clients)
	}
	d.clients[pattern] = strings.TrimPrefix(names[0], protocol.ProcessChannel(""))
	return d.clients[pattern]
}

// Found implements deadlock.World: it reports a circle for a call, once, and ends the call if that breaks the circle.
func (d *deadlocks) Found(number uint64, circle deadlock.Circle) {
	e := observe.DeadlockEvent{Deadlock: deadlockOf(circle)}
	text := e.Deadlock.String()
	call, ok := d.known[number]
	if !ok || d.reported[number][text] {
		return
	}
	victim := circle.Victim()
	if d.cfg.Break != nil && victim.Number == number && victim.Process == d.cfg.UUID {
		err := d.cfg.Break(e.Deadlock)
		d.cfg.Locks.EachWaiting(call.Key, func(c Call) {
			if uint64(c.Number.Load()) == number {
				c.Waiter.Break(err)
				e.Broken = true
			}
		})
	}
	if d.reported[number] == nil {
		d.reported[number] = map[string]bool{}
	}
	d.reported[number][text] = true
	as := call.Hooked
	e.Kind, e.Name, e.Template, e.Key = as.Kind, cmp.Or(as.Name, string(as.Kind)), as.Template, call.Key
	d.cfg.Logger.WarnContext(call.Ctx, "lockgen: a deadlock", "kind", call.Kind, "key", e.Key, "name", e.Name, "circle", text, "broken", e.Broken)
	if hook := d.cfg.Hooks.Deadlock; hook != nil {
		d.cfg.Later(func() { hook(call.Ctx, e) }, false)
	}
}

// deadlockOf returns a circle in the form for users.
func deadlockOf(circle deadlock.Circle) observe.Deadlock {
	var d observe.Deadlock
	victim := circle.Victim()
	for i, call := range circle.Calls {
		if call.ID == victim {
			d.Victim = i
		}
		d.Calls = append(d.Calls, observe.DeadlockedCall{
			Key: string(call.Key), Kind: observe.Kind(call.Kind), Name: call.Name, Since: time.UnixMicro(call.Since),
			Process: observe.Process{ID: call.Process, Name: call.Service, Host: call.Host, PID: call.PID, Program: call.Program},
		})
	}
	return d
}

// saw keeps what a look for deadlocks has found about the holder of a key.
func (d *deadlocks) saw(key string, f found) {
	if f.holder == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(_ string, of found) bool { return d.old(of) })
	d.seen[key] = f
}

// old reports whether a holder was found too long ago.
func (d *deadlocks) old(f found) bool { return time.Since(f.holder.Seen) > 2*d.cfg.Interval }

// LastHolder returns the holder of a lock that the last looks for deadlocks have found, or nil.
func (d *deadlocks) LastHolder(kind observe.Kind, key string) *observe.Holder {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.seen[key]; ok && !d.old(f) {
		return f.blocking(kind)
	}
	return nil
}
