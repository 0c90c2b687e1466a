package transport

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// How many leases are renewed in one round trip: enough to make it cheap, few enough that others do not wait long for the server.
//
// A server that remembers all keys of a script at each read of one takes four times as long for 256 leases as for 64 each. So a script
// with many keys runs without tracking there, and one EXISTS after it makes the server remember all of them: three commands, which
// cost the server a third less than the script alone with 64 each. A change that another client makes between the two is noticed at the next
// renewal.
const (
	plainBatch   = 256 // without tracking, and where the server remembers only the keys that a script reads
	trackedBatch = 64  // where it remembers all keys of a script
	bulkBatch    = 768 // there, with an EXISTS: few commands for 10,000 leases; each batch keeps the server from others for some milliseconds
)

// RenewBatch returns how many leases are renewed in one round trip. The number may change with the server.
func (t *Transport) RenewBatch() int {
	switch {
	case !t.Tracks() || t.tracker.memory.Load() == memoryReads:
		return plainBatch
	case t.tracker.memory.Load() == memoryAfter:
		return bulkBatch
	}
	return trackedBatch
}

// A Renewal is one lease that is renewed.
type Renewal struct {
	Key, Owner string
	TTL        time.Duration
}

// An Outcome is what became of a renewal.
type Outcome struct {
	Err   error         // nil, [ErrRefused], or another one if it is unknown
	Lasts time.Duration // for how long the owner has the key, however often it is renewed: negative for ever; of a renewal without an error
}

// ErrRefused is the outcome of a renewal that Redis refused: the key is not the owner's.
var ErrRefused = errors.New("the key is not the owner's")

// A parcel is the renewals of one run of the script: their keys may be in one script.
type parcel struct {
	protocol.Command
	places []int // of its renewals
}

// Renew renews leases of one kind and returns the outcome of each. In a cluster each slot has a parcel of its own, and the
// parcels of one server go to it together. A connection that has taken longer than patience for an answer is avoided.
func (t *Transport) Renew(kind protocol.Renewal, batch protocol.Batch, rs []Renewal, patience time.Duration) []Outcome {
	places := make([]int, len(rs))
	for i := range places {
		places[i] = i
	}
	outcomes := make([]Outcome, len(rs))
	again := t.renewParcels(kind, t.parcels(kind, batch, rs, places), patience, outcomes)
	if len(again) > 0 { // the slot is moving: each key alone is with one server or the other
		var each []parcel
		for _, i := range again {
			each = append(each, t.parcels(kind, batch, rs, []int{i})...)
		}
		t.renewParcels(kind, each, patience, outcomes)
	}
	return outcomes
}

// parcels returns the commands for some of the renewals. It sorts places.
func (t *Transport) parcels(kind protocol.Renewal, batch protocol.Batch, rs []Renewal, places []int) []parcel {
	slotOf := func(int) uint16 { return 0 }
	if t.cluster != nil && len(places) > 1 {
		slotOf = func(i int) uint16 { return protocol.Slot(rs[i].Key) }
		slices.SortFunc(places, func(i, j int) int { return cmp.Compare(slotOf(i), slotOf(j)) })
	}
	var all []parcel
	for len(places) > 0 {
		n := 1
		for n < len(places) && slotOf(places[n]) == slotOf(places[0]) {
			n++
		}
		p := parcel{places: places[:n], Command: protocol.Command{Script: batch.Script, Args: slices.Clone(batch.Common)}}
		places = places[n:]
		for _, i := range p.places {
			p.Keys, p.Args = kind.Renew(p.Keys, p.Args, rs[i].Key, rs[i].Owner, rs[i].TTL)
		}
		all = append(all, p)
	}
	return all
}

// renewParcels sends the parcels and notes the outcome of each renewal. It returns the renewals that are to be sent alone.
func (t *Transport) renewParcels(kind protocol.Renewal, parcels []parcel, patience time.Duration, outcomes []Outcome) (again []int) {
	commands := make([]protocol.Command, len(parcels))
	for i, p := range parcels {
		commands[i] = p.Command
	}
	var replies []rueidis.RedisResult
	if t.cluster != nil {
		replies = t.runSoon(patience, commands...)
	} else {
		for _, cmd := range commands {
			if kind == protocol.RenewPermits { // a key that changes all the time is not worth tracking
				replies = append(replies, t.runSoon(patience, cmd)...)
			} else {
				replies = append(replies, t.runTracked(cmd, patience))
			}
		}
	}
	for i, p := range parcels {
		var renewed protocol.Renewed
		said, err := replies[i].AsIntSlice()
		if err == nil {
			renewed, err = protocol.ReadRenewals(said, len(p.places))
		}
		if len(p.places) > 1 && err != nil && moving(err) {
			again = append(again, p.places...)
		}
		for j, place := range p.places {
			switch {
			case err != nil:
				outcomes[place] = Outcome{Err: err}
			case renewed.Has(j):
				outcomes[place] = Outcome{Lasts: renewed.Lasts(j)}
			default:
				outcomes[place] = Outcome{Err: ErrRefused}
			}
		}
	}
	return again
}

// readsAfter is the last argument of a script that renews, if a command after it reads the keys.
const readsAfter = "reads"

// renew sends a renewal over a connection on which the server reports changes.
func (t *tracker) renew(conn rueidis.DedicatedClient, cmd protocol.Command) rueidis.RedisResult {
	memory := t.memory.Load()
	if len(cmd.Keys) < trackedBatch || memory == memoryReads || memory == memoryAllRefused || t.link.loads.Load() == 0 {
		return t.link.runOn(context.Background(), conn, cmd)
	}
	asked := monotonic.Now()
	bulk := cmd
	bulk.Args = append(slices.Clip(cmd.Args), readsAfter)
	// Commands of so many keys are pinned: the next ones, which are small, do not get their room, of which a connection keeps that of its last
	// commands for as long as there are no others.
	replies := conn.DoMulti(context.Background(), conn.B().ClientCaching().No().Build(), t.link.evalsha(bulk).Pin(),
		conn.B().Exists().Key(cmd.Keys...).Build().Pin())
	for _, i := range []int{0, 2} {
		err := replies[i].Error()
		if _, answered := rueidis.IsRedisErr(err); answered {
			if !Passing(err) { // a busy server refuses all commands for a while
				t.memory.Store(memoryAllRefused)
			}
			return t.link.runOn(context.Background(), conn, cmd) // for the keys that the server does not remember now
		}
	}
	if missing(replies[1]) {
		return t.link.runOn(context.Background(), conn, cmd)
	}
	t.memory.Store(memoryAfter)
	t.link.heard(asked, replies[1])
	return t.link.translate(replies[1])
}

// runTracked is runSoon over the tracked connection if that is well, else, and also if it fails there, over the shared one. A
// connection that has taken longer than patience for an answer is avoided. The command may be sent twice then.
func (t *Transport) runTracked(cmd protocol.Command, patience time.Duration) rueidis.RedisResult {
	w := t.tracker.begin()
	if w == nil {
		return t.runSoon(patience, cmd)[0]
	}
	var failure error
	if answered, ok := w.pending.begin(patience); ok {
		stop := w.awaits()
		reply := t.tracker.renew(w.conn, cmd)
		stop()
		answered()
		failure = reply.Error()
		if w.settle(failure); failure == nil {
			return reply
		}
	}
	reply := t.runSoon(patience, cmd)[0]
	switch {
	case reply.Error() != nil: // the other connection does no better
	case failure != nil: // unless it is broken, it is the connection that the server refuses
		t.tracker.mu.Lock()
		w.replace(failure)
		t.tracker.mu.Unlock()
	default:
		w.fallBehind(cmd.Keys, patience)
	}
	return reply
}

// runSoon sends commands whose keys one server has, in one round trip, and does not wait until a mute connection is given up: if such a
// request has had no answer for longer than patience, they go over another connection.
func (t *Transport) runSoon(patience time.Duration, cmds ...protocol.Command) []rueidis.RedisResult {
	server := t.server(cmds[0])
	answered, ok := t.renewals.begin(server, patience)
	if !ok {
		if replies, ok := t.spares.runAll(nil, cmds); ok {
			return replies
		}
		answered = t.renewals.note(server)
	}
	defer answered()
	if t.cluster == nil {
		return []rueidis.RedisResult{t.run(cmds[0])}
	}
	return t.runRouted(cmds)
}

// RunBatch sends the command of a batch, again if the answer is late, and returns the error of the command, or the first one of its
// requests.
func (t *Transport) RunBatch(cmd protocol.Command) error {
	answer, _ := t.RunInTime(nil, cmd)
	all, err := answer.result.ToMessage()
	if err != nil || all.IsInt64() { // one number is the answer to each request
		return err
	}
	reply, err := all.ToArray()
	for size := len(protocol.Answer{}); err == nil && len(reply) > 0; reply = reply[size:] {
		if len(reply) < size {
			return errShort
		}
		_, err = answerOf(reply)
	}
	return err
}

var errShort = errors.New("the reply to a batch has too few values")
