package lockrt

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// How many locks are renewed in one round trip: enough to make it cheap, few enough that the server
// is not kept from others for longer than a fraction of a millisecond. Where it is to tell of changes
// it remembers all keys of the script at each read of one.
const (
	renewBatch        = 256
	trackedRenewBatch = 64
)

// A parcel is what one run of a script renews: leases whose keys may be in one script.
type parcel struct {
	leases []int // their places
	owners []string
	protocol.Command
}

// renew is the watchdog's way to Redis, for leases of one kind. In a cluster each slot has a parcel of its own, and
// those that one server has are sent to it together.
func (c *Client) renew(leases []*watchdog.Lease, ttls []time.Duration) []error {
	kind := renewal(leases[0].Kind())
	patience := leases[0].TTL
	at := now()
	c.introduceWith(leases)
	for _, l := range leases {
		patience = min(patience, l.Patience(at))
	}
	parcels := c.parcels(kind, leases, ttls)
	outcomes := make([]error, len(leases))
	again := c.renewAll(kind, leases, parcels, patience/2, outcomes) // when the watchdog tries again, half of that is over
	if len(again) > 0 {                                              // the slot is moving: each key alone is with one server or the other
		var each []parcel
		for _, i := range again {
			one := c.parcels(kind, leases[i:i+1], ttls[i:i+1])[0]
			one.leases[0] = i
			each = append(each, one)
		}
		c.renewAll(kind, leases, each, patience/2, outcomes)
	}
	return outcomes
}

// renewal returns how leases of a kind are renewed.
func renewal(kind string) protocol.Renewal {
	switch kind {
	case kindRead:
		return protocol.RenewReader
	case kindPermit:
		return protocol.RenewPermits
	}
	return protocol.RenewLock
}

// parcels returns what the scripts are to be told.
func (c *Client) parcels(kind protocol.Renewal, leases []*watchdog.Lease, ttls []time.Duration) []parcel {
	places := make([]int, len(leases))
	for i := range places {
		places[i] = i
	}
	slotOf := func(int) uint16 { return 0 }
	if c.cluster != nil && len(leases) > 1 {
		slotOf = func(i int) uint16 { return protocol.Slot(leases[i].Key()) }
		slices.SortFunc(places, func(i, j int) int { return cmp.Compare(slotOf(i), slotOf(j)) })
	}
	var all []parcel
	batch := c.wire.Renewals(kind)
	for len(places) > 0 {
		n := 1
		for n < len(places) && slotOf(places[n]) == slotOf(places[0]) {
			n++
		}
		p := parcel{leases: places[:n], Command: protocol.Command{Script: batch.Script, Args: slices.Clone(batch.Common)}}
		places = places[n:]
		for _, i := range p.leases {
			l := leases[i]
			owner := l.Owner()
			p.owners = append(p.owners, owner)
			p.Keys, p.Args = kind.Renew(p.Keys, p.Args, l.Key(), owner, ttls[i])
		}
		all = append(all, p)
	}
	return all
}

// renewAll sends the parcels and notes the outcome of each lease. It returns the leases that are to be sent alone.
func (c *Client) renewAll(kind protocol.Renewal, leases []*watchdog.Lease, parcels []parcel, patience time.Duration, outcomes []error) (again []int) {
	var replies []rueidis.RedisResult
	switch {
	case c.cluster != nil:
		replies = c.cluster.runAll(parcels, patience)
	case kind == protocol.RenewPermits:
		replies = append(replies, c.runSoon(parcels[0].Command, patience))
	default:
		replies = append(replies, c.tracker.run(parcels[0].Command, patience))
	}
	for i, p := range parcels {
		var renewed protocol.Renewed
		said, err := replies[i].AsIntSlice()
		if err == nil {
			renewed, err = protocol.ReadRenewals(said, len(p.leases))
		}
		if len(p.leases) > 1 && err != nil && moving(err) {
			again = append(again, p.leases...)
		}
		for j, place := range p.leases {
			switch {
			case err != nil:
				outcomes[place] = err
			case renewed.Has(j):
				outcomes[place] = nil
			default:
				outcomes[place] = watchdog.ErrRefused
				if l, ok := leases[place].Holding.(interface{ fewer(owner string) bool }); ok && l.fewer(p.owners[j]) {
					outcomes[place] = errFewer
				}
			}
		}
	}
	return again
}

// errFewer is the outcome of a renewal of several permits while some of them were given back: it asked for too many.
var errFewer = errors.New("some of the permits were given back meanwhile")

// owing is when requests were sent over a connection that it has not answered. The zero value is of one that owes nothing.
type owing struct {
	mu   sync.Mutex
	sent uint64
	owed map[uint64]time.Time
}

// begin notes a request, unless the connection has owed an answer for longer than patience.
func (o *owing) begin(patience time.Duration) (answered func(), ok bool) {
	if time.Since(o.oldest()) > patience {
		return nil, false
	}
	return o.note(), true
}

// note notes a request.
func (o *owing) note() (answered func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owed == nil {
		o.owed = map[uint64]time.Time{}
	}
	o.sent++
	n := o.sent
	o.owed[n] = time.Now()
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.owed, n)
	}
}

// oldest returns when the request was sent that has been unanswered for longest, or the present.
func (o *owing) oldest() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := time.Now()
	for _, sent := range o.owed {
		if sent.Before(at) {
			at = sent
		}
	}
	return at
}

// runSoon is run for what cannot wait until a mute connection is given up: if an answer to such a request has been owed
// for longer than patience, it goes over another connection.
func (c *Client) runSoon(cmd protocol.Command, patience time.Duration) rueidis.RedisResult {
	answered, ok := c.owing.begin(patience)
	if !ok {
		if conn, release := c.dedicate(c.rc, c.opts.OpTimeout); conn != nil {
			defer release()
			return c.runOn(conn, cmd)
		}
		answered = c.owing.note()
	}
	defer answered()
	return c.run(cmd)
}

// dedicate returns a connection of its own, or nil if the client is closed meanwhile, or there is none within limit, if that
// is more than 0: a client of the user's may be out of connections for as long as he likes.
func (c *Client) dedicate(rc rueidis.Client, limit time.Duration) (conn rueidis.DedicatedClient, release func()) {
	type connection struct {
		conn    rueidis.DedicatedClient
		release func()
	}
	got := make(chan connection)
	over := make(chan struct{})
	defer close(over)
	go func() {
		conn, release := rc.Dedicate()
		select {
		case got <- connection{conn, release}:
		case <-over:
			release()
		}
	}()
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case made := <-got:
		return made.conn, made.release
	case <-late:
	case <-c.stopped:
	}
	return nil, nil
}

// runAll is run for many keys that one server has, in one round trip, and cannot wait either.
func (cl *cluster) runAll(parcels []parcel, patience time.Duration) []rueidis.RedisResult {
	c, key := cl.c, parcels[0].Keys[0]
	to, addr := cl.route(key), cl.nodeOf(key)
	owing := cl.owingOf(addr)
	answered, ok := owing.begin(patience)
	if node := c.rc.Nodes()[addr]; !ok && node != nil {
		if conn, release := c.dedicate(node, c.opts.OpTimeout); conn != nil {
			defer release()
			to, answered = detour{conn, c.rc}, func() {}
		}
	}
	if answered == nil {
		answered = owing.note()
	}
	replies := c.together(to, parcels)
	answered()
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
	if now, tookOver := cl.route(key).(detour); tookOver && to == sender(c.rc) {
		for i, reply := range c.together(now, rest) {
			replies[failed[i]] = reply
		}
	}
	return replies
}

// together sends a script for each of the parcels, and returns their replies.
func (c *Client) together(to sender, parcels []parcel) []rueidis.RedisResult {
	if loaded := c.loads.Load(); loaded == 0 {
		c.load(loaded)
	}
	commands := make(rueidis.Commands, len(parcels))
	for i, p := range parcels {
		commands[i] = c.evalsha(p.Command)
	}
	replies := to.DoMulti(context.Background(), commands...)
	for i, p := range parcels {
		if missing(replies[i]) {
			replies[i] = c.runOn(to, p.Command)
		} else {
			replies[i] = c.unanswered(replies[i])
		}
	}
	return replies
}

// owingOf returns what a server owes.
func (cl *cluster) owingOf(addr string) *owing {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	o := cl.owing[addr]
	if o == nil {
		if cl.owing == nil {
			cl.owing = map[string]*owing{}
		}
		o = &owing{}
		cl.owing[addr] = o
	}
	return o
}
