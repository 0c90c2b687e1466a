package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// An rwHome is this process's side of one read-write lock. Those who wait stand in one queue, first come,
// first served, and its head asks Redis. Those who read together share one hold; they pass by the
// queue while it is empty.
//
//	           granted                   the last one unlocks
//	┌── asking ────────► write, or reads ────────────────────► releasing ──┐
//	│    ▲   │             ▲      │                                        │
//	│    └───┘             └──────┘                                        │
//	│   refused: again     read: others join                               │
//	│   by message and     write: the next writer                          │
//	│   by timer           has it, for some times                          │
//	└──────────────────────── the head's turn ◄────────────────────────────┘
//
// Who reads under a write lock of its own, or under a read lock of its own that ends before, asks beside
// the queue: it waits for nobody.
type rwHome struct {
	c     *Client
	key   string
	lock  protocol.RW
	users int // calls, holds and requests that refer to this home; guarded by c.mu

	mu    sync.Mutex // guards the rest; never held while waiting for anything
	queue line       // of those who wait
	write *rwHold    // what the process has for writing, or nil
	reads []*rwHold  // what it has for reading: one for each length of lease
	busy  int        // requests of the queue under way, or a loss being told
	shut  bool       // the client is closed: nobody enters again
	said  word       // by Redis

	probed time.Time // when Redis was last asked whether a Java program waits
}

// An rwClaim is what one waiter asks Redis with: an owner that is used for this and for nothing else, so
// that whatever late request names it cannot harm a later one.
type rwClaim struct {
	h     *rwHome
	w     *waiter // whose it is
	write bool
	under *rwHold // of the same holder, which lets it read past everybody; or nil

	// Guarded by rwHome.mu.
	n      uint64  // 0 before it asks
	field  string  // by which Redis knows it
	asking bool    // a request is under way
	stands bool    // it may stand in line
	wants  bool    // somebody waited for it when it was granted
	left   bool    // the waiter has gone
	ours   bool    // Redis granted it, but nobody was given it
	doubt  bool    // a reply was lost
	seized bool    // it was taken by force, said before the answer came
	hold   *rwHold // what it was granted, or nil
	ttl    time.Duration

	recheck *time.Timer   // asks when the turn of another one is over; nil if none was set
	counted *hub.Listener // while it listens to what Redisson says, so that it is not taken for a Java program
}

// An rwHold is a claim that was granted.
type rwHold struct {
	home  *rwHome
	claim *rwClaim
	write bool
	terms terms
	limit time.Duration // WithMaxHold, or 0; of a writer, that of the present one
	guard watchdog.Lease

	// Guarded by rwHome.mu.
	leases []*Lease // of the writer, one more for each reentry; or of all who read
	passed int      // times it went from writer to writer without a word to Redis
	shown  bool     // a claim to read names it to Redis, which lets that in whoever has the hold by then
	wanted bool     // somebody waited for it: who comes now asks Redis, which knows whose turn it is
	lost   error    // why the watchdog gave it up, or nil
}

func (hd *rwHold) Kind() string {
	if hd.write {
		return kindWrite
	}
	return kindRead
}

func (hd *rwHold) Key() string      { return hd.home.key }
func (hd *rwHold) Owner() string    { return hd.claim.field }
func (hd *rwHold) Lost(cause error) { hd.home.lose(hd, cause) }

const (
	// lineFor is for how long a line is remembered that nobody asks for any more, and so what it costs if those in it have
	// died. Who stands in one asks twice in that time.
	lineFor = 2 * time.Second

	// probeEvery is how often readers that come and go without end look whether anybody waits to write of whom they do not
	// hear. If so, nobody joins them any more, and it is for Redis to say whose turn it is.
	probeEvery = 250 * time.Millisecond
)

// knownRW returns this process's side of the read-write lock key if there is one. It may be forgotten at any
// moment, but not while the process has the lock.
func (c *Client) knownRW(key string) *rwHome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rws[key]
}

// enterRW returns this process's side of the read-write lock key for a call, until exit.
func (c *Client) enterRW(key string) (*rwHome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return nil, ErrClosed
	}
	h := c.rws[key]
	if h == nil {
		h = &rwHome{c: c, key: key, lock: c.wire.RW(key)}
		c.rws[key] = h
	}
	h.users++
	c.running++
	return h, nil
}

func (h *rwHome) exit() {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	h.forget()
	c.running--
	if c.running == 0 {
		c.idle.set()
	}
}

// stay counts one more user of a home that has one.
func (h *rwHome) stay() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.users++
}

// quit takes back stay. A home that nobody uses is forgotten.
func (h *rwHome) quit() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.forget()
}

func (h *rwHome) forget() {
	h.users--
	if h.users == 0 {
		delete(h.c.rws, h.key)
	}
}

func (h *rwHome) channel() string { return h.lock.Channel() }

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (h *rwHome) hear(string) {}

// enter makes l one more lease of what this process has, if the caller may have it without waiting and
// without asking. Otherwise it may return what the caller has that lets it read past everybody.
func (h *rwHome) enter(ctx context.Context, l *Lease, cfg lockConfig) (entered bool, under *rwHold, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return false, nil, ErrClosed
	}
	entered, under, err = h.allowed(ctx, l, cfg.terms, cfg.maxHold)
	if entered || under != nil || err != nil || l.kind == kindWrite {
		return entered, under, err
	}
	switch {
	case !h.c.granting():
		return false, nil, ErrClosed
	case h.write != nil || h.queue.length > 0:
		return false, nil, nil
	}
	now := time.Now()
	hd := h.joinable(cfg.terms, cfg.maxHold, now)
	if hd == nil {
		return false, nil, nil
	}
	h.attach(hd, l)
	h.c.counts.waited(0)
	if now.Sub(h.probed) > probeEvery {
		h.probe(now)
	}
	return true, nil, nil
}

// allowed makes l one more lease of what the caller has already, as the holder of an outer lease or as its owner,
// or returns what lets it read past everybody. Neither nor an error means that the caller has nothing.
func (h *rwHome) allowed(ctx context.Context, l *Lease, t terms, limit time.Duration) (entered bool, under *rwHold, err error) {
	writes, reads := h.of(ctx, l)
	switch {
	case l.kind == kindWrite && writes != nil:
		h.attach(writes, l)
		return true, nil, nil
	case l.kind == kindWrite && reads != nil:
		return false, nil, ErrUpgrade
	case reads != nil && (reads.renewed() || !reads.terms.renew && !t.renew):
		h.attach(reads, l)
		return true, nil, nil
	case writes != nil:
		// What is held for reading beside a write lock is of the same holder.
		if hd := h.joinable(t, limit, time.Now()); hd != nil {
			h.attach(hd, l)
			return true, nil, nil
		}
		writes.shown = true
		return false, writes, nil
	case reads != nil:
		return false, reads, nil // it asks to read for longer
	}
	return false, nil, nil
}

// of returns what the caller has: by the context that l is taken under, or by its owner.
func (h *rwHome) of(ctx context.Context, l *Lease) (writes, reads *rwHold) {
	consider := func(x *Lease) {
		hd, ok := x.hold.(*rwHold)
		switch {
		case !ok || hd.home != h || hd.lost != nil || x.unlocked.Load() || x.ended() != nil:
		case hd.write:
			writes = hd
		case reads == nil || hd.renewed():
			reads = hd
		}
	}
	for x := leaseFrom(ctx, h.c, h.key); x != nil; x = leaseFrom(x.parent, h.c, h.key) {
		consider(x)
	}
	if l.owner == nil {
		return writes, reads
	}
	for _, hd := range h.all() {
		for _, x := range hd.leases {
			if x.owner == l.owner {
				consider(x)
			}
		}
	}
	return writes, reads
}

// all returns what this process has.
func (h *rwHome) all() []*rwHold {
	if h.write == nil {
		return h.reads
	}
	return append([]*rwHold{h.write}, h.reads...)
}

// renewed reports whether the hold lives as long as its leases do.
func (hd *rwHold) renewed() bool { return hd.terms.renew && hd.limit == 0 }

// joinable returns the hold that one who wants to read on these terms may join, or nil.
func (h *rwHome) joinable(t terms, limit time.Duration, now time.Time) *rwHold {
	if !t.renew || limit > 0 {
		return nil
	}
	for _, hd := range h.reads {
		if hd.terms == t && hd.renewed() && hd.trusted(now) && !hd.wanted {
			return hd
		}
	}
	return nil
}

// trusted reports whether there is enough trust left to give to somebody.
func (hd *rwHold) trusted(now time.Time) bool {
	return hd.guard.Until().Sub(now) >= min(hd.terms.ttl, claimLease)/3
}

// probe asks whether anybody waits to write, since readers that come and go without end would keep out one, and has nobody
// join them if so. They may not hear of it: a Java program tells nobody, and some of this library do not listen.
func (h *rwHome) probe(now time.Time) {
	h.probed = now
	h.stay()
	h.c.spawn(func() {
		defer h.quit()
		waits, err := h.c.net.Run(h.lock.Yield(probeEvery)).Bool()
		if err != nil || !waits {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, hd := range h.reads {
			hd.wanted = true
		}
	})
}

// join puts w at the end of the queue.
func (h *rwHome) join(w *waiter) entry {
	if w.rw.under != nil {
		return toAsk
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.lease.owner != nil { // who may have been granted something a moment ago
		allowed, under, err := h.allowed(w.lease.parent, w.lease, w.terms, w.limit)
		switch {
		case allowed:
			w.place.granted = true
			return entered
		case err != nil:
			w.tell(news{kind: failed, err: err})
			return toWait
		case under != nil:
			w.rw.under = under
			return toAsk
		}
	}
	if w.once && (h.queue.length > 0 || h.has(w)) {
		return turnedAway
	}
	h.queue.push(w)
	w.place.leading = h.queue.first == w && h.ready(w)
	if w.place.leading {
		return toAsk
	}
	return toWait
}

// has reports whether this process has what keeps w out.
func (h *rwHome) has(w *waiter) bool { return h.write != nil || w.rw.write && len(h.reads) > 0 }

// last returns whether this process has what keeps w out, and what Redis said last.
func (h *rwHome) last(w *waiter) (held bool, said word) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.queue.first
	return h.has(w) || first != nil && h.has(first), h.said.look()
}

// remind has the head of the queue ask.
func (h *rwHome) remind() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.promote()
}

// ready reports whether the head of the queue, w, may ask Redis.
func (h *rwHome) ready(w *waiter) bool {
	switch {
	case h.busy > 0 || h.write != nil || w.place.granted:
		return false
	case w.rw.write:
		return len(h.reads) == 0
	}
	return true
}

// promote makes it the head's turn to ask, unless there is no need. One who wants to read may find a hold to
// join. A head whose turn it is already is reminded.
func (h *rwHome) promote() {
	for {
		w := h.queue.first
		if w == nil {
			return
		}
		if !w.rw.write && w.rw.n == 0 && h.write == nil && h.c.granting() {
			if hd := h.joinable(w.terms, w.limit, time.Now()); hd != nil {
				h.queue.remove(w)
				h.give(hd, w)
				continue
			}
		}
		switch {
		case !h.ready(w):
		case w.place.leading:
			w.poke()
		default:
			w.place.leading = true
			w.tell(news{kind: turn})
		}
		return
	}
}

// ask sends one request for w.
func (h *rwHome) ask(w *waiter) {
	cl := w.rw
	h.mu.Lock()
	if w.place.granted {
		h.mu.Unlock()
		return // it was given what it wants a moment ago
	}
	if cl.n == 0 {
		cl.n = h.c.claims.Add(1)
		cl.field = h.lock.Field(cl.n, cl.write)
		cl.ttl = w.terms.ttl
		h.c.connect(cl.n, h.key, cl)
	}
	cl.asking = true
	if cl.under == nil {
		h.busy++
		h.said.asks()
	}
	var place protocol.Stay
	if !w.once {
		place = protocol.Stay{For: lineFor, Deaf: w.terms.quiet || cl.stands && !h.c.attends(h.key)}
		cl.stands = true
	}
	fenced := w.terms.fenced
	h.mu.Unlock()

	w.asks.Add(1)
	h.stay()
	h.c.spawn(func() {
		defer h.quit()
		sent := time.Now() // before the request: trust is counted from here
		reply, err := h.send(cl, place, fenced)
		rest := h.settle(cl, sent, reply, err)
		w.asks.Add(-1)
		if rest != nil {
			h.c.spawn(rest) // it may take as long as a lease, and has the home stay as long as it needs it
		}
	})
}

// send asks Redis for cl.
func (h *rwHome) send(cl *rwClaim, place protocol.Stay, fenced bool) (reply protocol.Verdict, err error) {
	if cl.write {
		tokens := 0
		if fenced {
			tokens = 1
		}
		numbers, err := h.c.net.RunGrant(h.lock.Write(cl.field, place, tokens, cl.ttl), isGranted).Ints()
		if err != nil {
			return reply, err
		}
		return protocol.ReadRWWrite(numbers)
	}
	under := ""
	if cl.under != nil {
		under = cl.under.claim.field
	}
	n, err := h.c.net.RunGrant(h.lock.Read(cl.field, under, place, cl.ttl), isGranted).Int()
	return protocol.ReadRWRead(n), err
}

// settle deals with the answer to the request that was sent for cl. It returns what is left to do when nobody wants what was
// granted, or may have been.
func (h *rwHome) settle(cl *rwClaim, sent time.Time, reply protocol.Verdict, err error) (rest func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cl.under == nil {
		h.busy--
		h.said.says(err == nil && !reply.Granted(), err)
	}
	cl.asking = false
	cl.doubt = cl.doubt || transport.Unknown(err) || transport.Begun(err)
	w := cl.w
	if err == nil {
		cl.ours = reply.Granted()
	}
	cl.ours = cl.ours || transport.Unconfirmed(err)
	switch {
	case cl.left:
		rest = h.drop(cl)
		h.promote()
		return rest
	case err != nil:
		w.tell(news{kind: failed, err: err})
	case !cl.ours:
		cl.seized = false
		if cl.counted == nil && !w.once && !w.terms.quiet {
			cl.counted = h.c.net.Listen(h.lock.WaiterChannel(), func(hub.Event) {})
		}
		pause := lineFor / 2
		if reply.Wait >= 0 {
			pause = min(pause, time.Duration(reply.Wait)*time.Millisecond)
		}
		w.tell(news{kind: refusedFor, ttl: pause, foreign: true, inLine: true})
	case !h.c.granting():
		w.tell(news{kind: failed, err: ErrClosed}) // it is on its way out
	case !time.Now().Before(sent.Add(cl.ttl - watchdog.Margin(cl.ttl))):
		w.tell(news{kind: failed, err: errLate})
	case cl.seized:
		cl.seized = false // what Redis said is over; it is asked again
		w.tell(news{kind: turn})
	default:
		cl.ours = false
		hd := h.take(cl, sent)
		if w.terms.fenced {
			w.lease.token = reply.Token
		}
		if cl.under == nil {
			h.queue.remove(w)
		}
		h.give(hd, w)
		h.promote()
	}
	return nil
}

// take turns a claim that was granted into a hold and has it guarded, from the time sent.
func (h *rwHome) take(cl *rwClaim, sent time.Time) *rwHold {
	t := cl.w.terms
	hd := &rwHold{home: h, claim: cl, write: cl.write, terms: t, limit: cl.w.limit}
	hd.guard = watchdog.Lease{Holding: hd, TTL: t.ttl, Renew: t.renew}
	cl.hold, cl.stands, hd.wanted = hd, false, cl.wants
	cl.uncount()
	if cl.write {
		h.write = hd
	} else {
		h.reads = append(h.reads, hd)
		h.probed = time.Now()
	}
	h.stay()
	h.c.held(1)
	if !t.quiet {
		h.c.hearFor(h.key)
	}
	h.c.watchdog.Start(&hd.guard, sent, t.ttl)
	return hd
}

// give hands the hold to w, and to those in the queue who come with it.
func (h *rwHome) give(hd *rwHold, w *waiter) {
	w.place = place{granted: true}
	h.attach(hd, w.lease)
	if hd.write && (w.limit != hd.limit || w.limit > 0) || !hd.write && w.limit > 0 {
		hd.limit = w.limit
		var at time.Time
		if w.limit > 0 {
			at = w.lease.began.Add(w.limit).Std()
		}
		h.c.watchdog.Limit(&hd.guard, at)
	}
	owner := w.lease.owner
	w.tell(news{kind: given}) // from here on another call may use w
	if owner != nil {
		h.admit(hd, owner)
	}
}

// admit lets those in the queue in who are of the owner that was given hd, and would wait for themselves.
func (h *rwHome) admit(hd *rwHold, owner *Owner) {
	for w := h.queue.first; w != nil; {
		next := w.place.after
		switch {
		case w.lease.owner != owner || w.rw.n > 0:
		case hd.write && !w.rw.write:
			h.queue.remove(w)
			w.rw.under = hd
			hd.shown = true
			w.tell(news{kind: turn})
		case hd.write:
			h.queue.remove(w)
			w.place = place{granted: true}
			h.attach(hd, w.lease)
			w.tell(news{kind: given})
		case w.rw.write:
			h.queue.remove(w) // told once, and in nobody's way
			w.tell(news{kind: failed, err: ErrUpgrade})
		}
		w = next
	}
}

// attach makes l a lease of hd: the first, or one that enters it too.
func (h *rwHome) attach(hd *rwHold, l *Lease) {
	if hd.write && len(hd.leases) > 0 {
		l.token = hd.leases[0].token
	}
	if len(hd.leases) > 0 {
		l.came = fromItself
	}
	l.begin(hd, &hd.guard)
	l.at = int32(len(hd.leases))
	hd.leases = append(hd.leases, l)
}

// detach takes l out of the leases of hd.
func (hd *rwHold) detach(l *Lease) {
	last := len(hd.leases) - 1
	hd.leases[l.at] = hd.leases[last]
	hd.leases[l.at].at = l.at
	hd.leases[last] = nil
	hd.leases = hd.leases[:last]
}

// reenter is not how an rwHold is entered again, for that depends on the side.
func (hd *rwHold) reenter(_, _ *Lease) bool { return false }

// leave takes w out. If it was given the lease after all, that is unlocked.
func (h *rwHome) leave(w *waiter) {
	h.mu.Lock()
	if w.place.granted {
		h.mu.Unlock()
		l := w.lease
		h.c.spawn(func() { _ = l.hold.unlock(l) })
		return
	}
	cl := w.rw
	if w.place.queued {
		h.queue.remove(w)
	}
	cl.left = true
	var rest func()
	if !cl.asking {
		rest = h.drop(cl)
	}
	h.promote()
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
}

// drop gives up a claim whose waiter has gone. It returns what is left to do without holding h.mu, or nil.
func (h *rwHome) drop(cl *rwClaim) (rest func()) {
	cl.uncount()
	switch {
	case cl.ours:
		h.busy++
		h.stay()
		return func() { _ = h.free(cl, nil) }
	case cl.n > 0:
		h.c.disconnect(cl.n)
	}
	switch {
	case cl.doubt:
		return func() { h.withdraw(cl) }
	case cl.stands:
		return func() {
			if _, err := h.releaseOnce(cl); err != nil {
				h.withdraw(cl)
			}
		}
	}
	return nil
}

// uncount notes that the waiter listens no more, and has no turn to wait for.
func (cl *rwClaim) uncount() {
	if cl.counted != nil {
		cl.counted.Close()
	}
	if cl.recheck != nil {
		cl.recheck.Stop()
	}
}

// unlock ends l. The last lease of a hold passes it on or frees it.
func (hd *rwHold) unlock(l *Lease) error {
	h := hd.home
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	h.mu.Lock()
	if len(hd.leases) > 1 {
		hd.detach(l)
		cause := hd.lost
		h.mu.Unlock()
		l.end(ErrReleased)
		return cause
	}
	h.mu.Unlock()

	l.end(ErrReleased) // before anybody else can get it

	h.mu.Lock()
	hd.detach(l)
	if len(hd.leases) > 0 {
		defer h.mu.Unlock()
		return hd.lost // somebody has joined
	}
	if hd.lost != nil {
		defer h.mu.Unlock()
		if hd.claim.doubt || !errors.Is(hd.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			h.c.spawn(func() { h.withdraw(hd.claim) })
		}
		return hd.lost
	}
	if next := h.queue.first; h.suits(hd, next) {
		hd.passed++
		h.c.counts.local.Add(1)
		next.lease.came = fromHere
		h.queue.remove(next)
		h.give(hd, next)
		h.mu.Unlock()
		return nil
	}
	h.remove(hd)
	h.busy++
	h.c.watchdog.Stop(&hd.guard)
	h.mu.Unlock()

	done := make(chan error, 1)
	h.c.spawn(func() { _ = h.free(hd.claim, done) })
	timer := time.NewTimer(h.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
			return cause // by the clock, before the watchdog could say so
		}
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", h.c.opts.OpTimeout)
	}
}

// suits reports whether w, who wants to write, can have the hold of another writer as it is: on the same terms,
// with enough trust left, and not for too many times in a row, since nobody knows who else waits. A lease
// of fixed length cannot be passed on, nor one that somebody may still be let in to read by, and each with a
// token gets one of its own.
func (h *rwHome) suits(hd *rwHold, w *waiter) bool {
	return w != nil && hd.write && !hd.shown && !hd.guard.Extended() && len(h.reads) == 0 && w.rw.write && w.rw.n == 0 && w.terms == hd.terms && hd.terms.renew &&
		!hd.terms.fenced && hd.passed+1 < h.c.opts.Cohort && h.c.granting() && hd.trusted(time.Now())
}

// remove takes a hold out of what the process has.
func (h *rwHome) remove(hd *rwHold) {
	if hd.write {
		h.write = nil
		return
	}
	h.reads = slices.DeleteFunc(h.reads, func(x *rwHold) bool { return x == hd })
}

// lose ends the leases of a hold that Redis has for somebody else now, or may have soon.
func (h *rwHome) lose(hd *rwHold, cause error) {
	h.mu.Lock()
	if h.write != hd && !slices.Contains(h.reads, hd) {
		h.mu.Unlock()
		return // it is being released
	}
	h.remove(hd)
	h.busy++ // the next one asks when the present ones know
	hd.lost = lost(cause)
	h.mu.Unlock()

	h.tell(hd, lost(cause))
	h.c.depart(hd.claim.n, &hd.guard, cause, func() {})

	h.mu.Lock()
	h.busy--
	h.promote()
	h.mu.Unlock()
	h.c.held(-1)
	h.quit()
}

// tell ends the leases of a hold.
func (h *rwHome) tell(hd *rwHold, cause error) {
	h.mu.Lock()
	leases := slices.Clone(hd.leases)
	h.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// held returns what the process has for reading, or for writing with what it reads under that.
func (h *rwHome) held(write bool) []*rwHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if write != (h.write != nil) {
		return nil
	}
	return slices.Clone(h.all())
}

// entered returns how many leases the process has for writing, and for reading.
func (h *rwHome) entered() (writes, reads int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.write != nil {
		writes = len(h.write.leases)
	}
	for _, hd := range h.reads {
		reads += len(hd.leases)
	}
	return writes, reads
}

// changed has what the process has looked at, since somebody changed it.
func (h *rwHome) changed() {
	h.mu.Lock()
	holds := slices.Clone(h.all())
	h.mu.Unlock()
	for _, hd := range holds {
		h.c.watchdog.Look(&hd.guard)
	}
}

// close ends the leases of this home because the client is closed. Redis is told nothing.
func (h *rwHome) close() {
	h.mu.Lock()
	h.shut = true
	holds := slices.Clone(h.all())
	h.mu.Unlock()
	for _, hd := range holds {
		h.tell(hd, ErrClosed)
	}
}

// free gives a claim back, lets the queue go on, and tells done of the outcome unless that is nil. The home is
// busy until then, and left by the caller's stay.
func (h *rwHome) free(cl *rwClaim, done chan<- error) error {
	defer h.quit()
	err := h.release(cl)
	h.c.disconnect(cl.n)
	if cl.hold != nil {
		h.c.held(-1)
	}
	h.mu.Lock()
	h.busy--
	h.promote()
	h.mu.Unlock()
	if done != nil {
		done <- err // not sooner: who has unlocked finds the home ready
	}
	return err
}

// release gives a claim back. It tries until Redis has answered, at most for Options.OpTimeout;
// after that it goes on in the background.
func (h *rwHome) release(cl *rwClaim) error {
	return h.c.giveBack(cl.doubt, false, func() (bool, error) {
		done, err := h.releaseOnce(cl)
		return done != protocol.NotOurs, err
	}, func() { h.c.spawn(func() { h.withdraw(cl) }) })
}

func (h *rwHome) releaseOnce(cl *rwClaim) (protocol.Outcome, error) {
	done, err := h.c.net.Run(h.lock.Release(cl.field)).Int()
	return protocol.Outcome(done), err
}

// withdraw makes sure that Redis does not keep the lock, or a place in line, for a claim that nobody wants any more. It takes
// as long as a lease, and the home may be forgotten meanwhile.
func (h *rwHome) withdraw(cl *rwClaim) {
	h.c.withdrawBy(h.key, cl.ttl, func() error {
		_, err := h.releaseOnce(cl)
		return err
	})
}

// inherits says that those who wait are told in line, though nothing is handed to them.
func (h *rwHome) inherits() string { return h.key }

// handed is said of no claim to a read-write lock.
func (cl *rwClaim) handed(uint64, handOver) {}

// look has the waiter ask: it is its turn.
func (cl *rwClaim) look(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if cl.hold == nil && !cl.left {
		cl.w.poke()
	}
}

// soon has the waiter ask in d, in case nobody comes whose turn it is until then.
func (cl *rwClaim) soon(n uint64, d time.Duration) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	switch {
	case cl.hold != nil || cl.left:
	case cl.recheck != nil:
		cl.recheck.Reset(d)
	default:
		cl.recheck = time.AfterFunc(d, func() { cl.look(n) })
	}
}

// resubscribed has the waiter ask: what was said while nobody listened is not known. Who reads asks soon by itself, see probe.
func (cl *rwClaim) resubscribed(n uint64) { cl.look(n) }

// wanted notes that somebody waits for what cl has, or is about to have.
func (cl *rwClaim) wanted(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if cl.wants = true; cl.hold != nil {
		cl.hold.wanted = true
	}
}

// taken deals with the message that what cl has was taken by force.
func (cl *rwClaim) taken(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if hd := cl.hold; hd != nil {
		cl.h.c.spawn(func() { cl.h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused) })
		return
	}
	cl.seized = true
}
