package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// RenewBatch returns how many leases are renewed in one round trip: enough to make it cheap, few enough that others do not wait long for
// the server. The number may change with the server.
func (t *Transport) RenewBatch() int {
	switch {
	case !t.Tracks() || t.tracker.perKey.Load():
		return 256
	case t.tracker.bulk.Load() == bulkWorks:
		return bulkBatch
	}
	return trackedBatch
}

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

// A Renewal is one lease that is renewed.
type Renewal struct {
	Key, Owner string
	TTL        time.Duration
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
func (t *Transport) Renew(kind protocol.Renewal, batch protocol.Batch, rs []Renewal, patience time.Duration) []error {
	places := make([]int, len(rs))
	for i := range places {
		places[i] = i
	}
	outcomes := make([]error, len(rs))
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
func (t *Transport) renewParcels(kind protocol.Renewal, parcels []parcel, patience time.Duration, outcomes []error) (again []int) {
	var replies []rueidis.RedisResult
	switch {
	case t.cluster != nil:
		replies = t.cluster.runAll(parcels, patience)
	case kind == protocol.RenewPermits: // a key that changes all the time is not worth tracking
		replies = append(replies, t.runSoon(parcels[0].Command, patience))
	default:
		replies = append(replies, t.tracker.run(parcels[0].Command, patience))
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
				outcomes[place] = err
			case renewed.Has(j):
				outcomes[place] = nil
			default:
				outcomes[place] = ErrRefused
			}
		}
	}
	return again
}

// runAll is run for parcels whose keys one server has, in one round trip, that cannot wait either.
func (cl *cluster) runAll(parcels []parcel, patience time.Duration) []rueidis.RedisResult {
	t, key := cl.net, parcels[0].Keys[0]
	to, addr := cl.route(key), cl.nodeOf(key)
	pending := cl.pendingOf(addr)
	var replies []rueidis.RedisResult
	send := func(over sender) (broken bool) {
		to, replies = over, t.together(over, parcels)
		return slices.ContainsFunc(replies, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil })
	}
	answered, ok := pending.begin(patience)
	if !ok && !t.second.with(t.rc.Nodes()[addr], func(conn rueidis.DedicatedClient) bool { return send(redirect{conn, t.rc}) }) {
		answered = pending.note()
	}
	if answered != nil {
		send(to)
		answered()
	}
	var failed []int
	var rest []parcel
	for i, reply := range replies {
		if err := reply.NonRedisError(); err != nil && !errors.Is(err, rueidis.ErrClosing) {
			failed, rest = append(failed, i), append(rest, parcels[i])
		}
	}
	if len(failed) == 0 {
		return replies
	}
	cl.ask()
	if now, moved := cl.route(key).(redirect); moved && to == sender(t.rc) {
		for i, reply := range t.together(now, rest) {
			replies[failed[i]] = reply
		}
	}
	return replies
}

// together sends the commands of the parcels in one round trip, and returns their replies.
func (t *Transport) together(to sender, parcels []parcel) []rueidis.RedisResult {
	if loaded := t.loads.Load(); loaded == 0 {
		t.load(loaded)
	}
	commands := make(rueidis.Commands, len(parcels))
	for i, p := range parcels {
		commands[i] = t.evalsha(p.Command)
	}
	replies := to.DoMulti(context.Background(), commands...)
	for i, p := range parcels {
		if missing(replies[i]) {
			replies[i] = t.runOn(context.Background(), to, p.Command)
		} else {
			replies[i] = t.translate(replies[i])
		}
	}
	return replies
}

// A server that remembers all keys of a script at each read of one takes four times as long for 256 leases as for 64 each. So a script
// with many keys runs without tracking there, and one EXISTS after it makes the server remember all of them: three commands, which
// cost the server a third less than the script alone with 64 each. A change that another client makes between the two is noticed at the next
// renewal.
const (
	trackedBatch = 64
	bulkBatch    = 768 // few commands for 10,000 leases; each batch keeps the server from others for some milliseconds
)

// A bulkStage says whether the server runs single commands of a tracked connection without tracking.
const (
	bulkUnknown int32 = iota
	bulkWorks
	bulkRefused // a permission is missing
)

// renew sends a renewal over a connection on which the server reports changes.
func (t *tracker) renew(conn rueidis.DedicatedClient, cmd protocol.Command) rueidis.RedisResult {
	if len(cmd.Keys) < trackedBatch || t.perKey.Load() || t.bulk.Load() == bulkRefused || t.net.loads.Load() == 0 {
		return t.net.runOn(context.Background(), conn, cmd)
	}
	asked := monotonic.Now()
	replies := conn.DoMulti(context.Background(), conn.B().ClientCaching().No().Build(), t.net.evalsha(cmd),
		conn.B().Exists().Key(cmd.Keys...).Build())
	for _, i := range []int{0, 2} {
		if _, answered := rueidis.IsRedisErr(replies[i].Error()); answered {
			t.bulk.Store(bulkRefused)
			return t.net.runOn(context.Background(), conn, cmd) // for the keys that the server does not remember now
		}
	}
	if missing(replies[1]) {
		return t.net.runOn(context.Background(), conn, cmd)
	}
	t.bulk.Store(bulkWorks)
	t.net.heard(asked, replies[1])
	return t.net.translate(replies[1])
}

// pendingOf returns the renewals that a server has not answered.
func (cl *cluster) pendingOf(addr string) *pending {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	p := cl.pending[addr]
	if p == nil {
		if cl.pending == nil {
			cl.pending = map[string]*pending{}
		}
		p = &pending{}
		cl.pending[addr] = p
	}
	return p
}
