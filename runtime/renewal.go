package lockrt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
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
	leases     []int // their places
	owners     []string
	keys, args []string
}

// renew is the watchdog's way to Redis, for leases of one kind. In a cluster each slot has a parcel of its own, and
// those that one server has are sent to it together.
func (c *Client) renew(leases []*watchdog.Lease, ttls []time.Duration) []error {
	script := scripts.Renew
	var common []string
	switch leases[0].Kind() {
	case kindRead:
		script = scripts.RWReadRenew
	case kindPermit:
		script, common = scripts.PermitRenew, []string{c.publish}
	}
	patience := leases[0].TTL
	at := now()
	for _, l := range leases {
		patience = min(patience, l.Patience(at))
	}
	parcels := c.parcels(leases, ttls, common)
	outcomes := make([]error, len(leases))
	again := c.renewAll(script, leases, parcels, patience/2, outcomes) // when the watchdog tries again, half of that is over
	if len(again) > 0 {                                                // the slot is moving: each key alone is with one server or the other
		var each []parcel
		for _, i := range again {
			one := c.parcels(leases[i:i+1], ttls[i:i+1], common)[0]
			one.leases[0] = i
			each = append(each, one)
		}
		c.renewAll(script, leases, each, patience/2, outcomes)
	}
	return outcomes
}

// parcels returns what the scripts are to be told.
func (c *Client) parcels(leases []*watchdog.Lease, ttls []time.Duration, common []string) []parcel {
	places := make([]int, len(leases))
	for i := range places {
		places[i] = i
	}
	slotOf := func(int) uint16 { return 0 }
	if c.cluster != nil && len(leases) > 1 {
		slotOf = func(i int) uint16 { return slot(leases[i].Key()) }
		slices.SortFunc(places, func(i, j int) int { return cmp.Compare(slotOf(i), slotOf(j)) })
	}
	var all []parcel
	for len(places) > 0 {
		n := 1
		for n < len(places) && slotOf(places[n]) == slotOf(places[0]) {
			n++
		}
		p := parcel{leases: places[:n], args: slices.Clone(common)}
		places = places[n:]
		for _, i := range p.leases {
			l := leases[i]
			key, owner := l.Key(), l.Owner()
			p.keys = append(p.keys, key)
			switch l.Kind() {
			case kindRead:
				p.keys = append(p.keys, readerHold(key, owner))
			case kindPermit:
				p.keys = append(p.keys, countChannel(key), permitLeases(key))
			}
			p.owners = append(p.owners, owner)
			p.args = append(p.args, owner, millis(ttls[i]))
		}
		all = append(all, p)
	}
	return all
}

// renewAll sends the parcels and notes the outcome of each lease. It returns the leases that are to be sent alone.
func (c *Client) renewAll(s *scripts.Script, leases []*watchdog.Lease, parcels []parcel, patience time.Duration, outcomes []error) (again []int) {
	var replies []rueidis.RedisResult
	switch {
	case c.cluster != nil:
		replies = c.cluster.runAll(s, parcels, patience)
	case s == scripts.PermitRenew:
		replies = append(replies, c.runSoon(s, parcels[0].keys, parcels[0].args, patience))
	default:
		replies = append(replies, c.tracker.run(s, parcels[0].keys, parcels[0].args, patience))
	}
	for i, p := range parcels {
		said, err := replies[i].AsIntSlice()
		if err == nil && len(said) != len(p.leases) {
			err = fmt.Errorf("%d replies to %d renewals", len(said), len(p.leases))
		}
		if len(p.leases) > 1 && err != nil && moving(err) {
			again = append(again, p.leases...)
		}
		for j, place := range p.leases {
			switch {
			case err != nil:
				outcomes[place] = err
			case said[j] == 1:
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

// renewed is told the outcome of each renewal.
func (c *Client) renewed(l *watchdog.Lease, err error) {
	if err == nil {
		c.counts.renewals.Add(1)
	} else {
		c.counts.renewalFailures.Add(1)
	}
	if c.opts.Hooks.Renewed != nil {
		c.opts.Hooks.Renewed(RenewEvent{Kind: Kind(l.Kind()), Key: l.Key(), Until: l.Until(), Err: err})
	}
}

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
func (c *Client) runSoon(s *scripts.Script, keys, args []string, patience time.Duration) rueidis.RedisResult {
	answered, ok := c.owing.begin(patience)
	if !ok {
		if conn, release := c.dedicate(c.rc, c.opts.OpTimeout); conn != nil {
			defer release()
			return c.runOn(conn, s, keys, args)
		}
		answered = c.owing.note()
	}
	defer answered()
	return c.run(s, keys, args)
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
func (cl *cluster) runAll(s *scripts.Script, parcels []parcel, patience time.Duration) []rueidis.RedisResult {
	c, key := cl.c, parcels[0].keys[0]
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
	replies := c.together(to, s, parcels)
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
		for i, reply := range c.together(now, s, rest) {
			replies[failed[i]] = reply
		}
	}
	return replies
}

// together sends a script for each of the parcels, and returns their replies.
func (c *Client) together(to sender, s *scripts.Script, parcels []parcel) []rueidis.RedisResult {
	if loaded := c.loads.Load(); loaded == 0 {
		c.load(loaded)
	}
	commands := make(rueidis.Commands, len(parcels))
	for i, p := range parcels {
		commands[i] = c.evalsha(s, p.keys, p.args)
	}
	replies := to.DoMulti(context.Background(), commands...)
	for i, p := range parcels {
		if missing(replies[i]) {
			replies[i] = c.runOn(to, s, p.keys, p.args)
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
