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

// An rwResource is this process's side of one read-write lock. Those who wait stand in one queue, first come,
// first served, and its head asks Redis. Those who read together share one grant; they pass by the
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
type rwResource struct {
	c     *Client
	key   string
	lock  protocol.RW
	users int // calls, grants and requests that refer to this resource; guarded by c.mu

	mu      sync.Mutex // guards the rest; never held while waiting for anything
	queue   waitQueue  // of those who wait
	write   *rwGrant   // what the process has for writing, or nil
	reads   []*rwGrant // what it has for reading: one for each length of lease
	busy    int        // requests of the queue under way, or a loss that is being reported
	shut    bool       // the client is closed: nobody enters again
	answers answerLog  // by Redis

	probed time.Time // when Redis was last asked whether a Java program waits
}

// An rwTicket is what one waiter asks Redis with: an owner that is used for this and for nothing else, so
// that whatever late request names it cannot harm a later one.
type rwTicket struct {
	r     *rwResource
	w     *waiter // whose it is
	write bool
	under *rwGrant // of the same holder, which lets it read past everybody; or nil

	// Guarded by rwResource.mu.
	n              uint64   // 0 before it asks
	field          string   // by which Redis knows it
	asking         bool     // a request is under way
	stands         bool     // it may stand in line
	wants          bool     // somebody waited for it when it was granted
	left           bool     // the waiter has gone
	unclaimedGrant bool     // Redis granted it, but nobody was given it
	outcomeUnknown bool     // a reply was lost
	forced         bool     // it was taken by force, said before the answer came
	grant          *rwGrant // what it was granted, or nil
	ttl            time.Duration

	recheck *time.Timer   // asks when the turn of another one is over; nil if none was set
	counted *hub.Listener // while it listens to what Redisson says, so that it is not taken for a Java program
}

// An rwGrant is a ticket that was granted.
type rwGrant struct {
	resource *rwResource
	ticket   *rwTicket
	write    bool
	terms    terms
	limit    time.Duration // WithMaxHold, or 0; of a writer, that of the present one
	guard    watchdog.Lease

	// Guarded by rwResource.mu.
	leases []*Lease // of the writer, one more for each reentry; or of all who read
	passed int      // times it went from writer to writer without a word to Redis
	shown  bool     // a ticket to read names it to Redis, which lets that in whoever has the grant by then
	wanted bool     // somebody waited for it: who comes now asks Redis, which knows whose turn it is
	lost   error    // why the watchdog gave it up, or nil
}

func (g *rwGrant) Kind() string {
	if g.write {
		return kindWrite
	}
	return kindRead
}

func (g *rwGrant) Key() string      { return g.resource.key }
func (g *rwGrant) Owner() string    { return g.ticket.field }
func (g *rwGrant) Lost(cause error) { g.resource.revoke(g, cause) }

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
func (c *Client) knownRW(key string) *rwResource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rws[key]
}

// enterRW returns this process's side of the read-write lock key for a call, until exit.
func (c *Client) enterRW(key string) (*rwResource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return nil, ErrClosed
	}
	r := c.rws[key]
	if r == nil {
		r = &rwResource{c: c, key: key, lock: c.wire.RW(key)}
		c.rws[key] = r
	}
	r.users++
	c.running++
	return r, nil
}

func (r *rwResource) exit() {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r.forget()
	c.running--
	if c.running == 0 {
		c.idle.set()
	}
}

// stay counts one more user of a resource that has one.
func (r *rwResource) stay() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.users++
}

// quit takes back stay. A resource that nobody uses is forgotten.
func (r *rwResource) quit() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.forget()
}

func (r *rwResource) forget() {
	r.users--
	if r.users == 0 {
		delete(r.c.rws, r.key)
	}
}

func (r *rwResource) channel() string { return r.lock.Channel() }

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (r *rwResource) hear(string) {}

// enter makes l one more lease of what this process has, if the caller may have it without waiting and
// without asking. Otherwise it may return what the caller has that lets it read past everybody.
func (r *rwResource) enter(ctx context.Context, l *Lease, cfg lockConfig) (entered bool, under *rwGrant, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false, nil, ErrClosed
	}
	entered, under, err = r.allowed(ctx, l, cfg.terms, cfg.maxHold)
	if entered || under != nil || err != nil || l.kind == kindWrite {
		return entered, under, err
	}
	switch {
	case !r.c.granting():
		return false, nil, ErrClosed
	case r.write != nil || r.queue.length > 0:
		return false, nil, nil
	}
	now := time.Now()
	g := r.joinable(cfg.terms, cfg.maxHold, now)
	if g == nil {
		return false, nil, nil
	}
	r.attach(g, l)
	r.c.counts.waited(0)
	if now.Sub(r.probed) > probeEvery {
		r.probe(now)
	}
	return true, nil, nil
}

// allowed makes l one more lease of what the caller has already, as the holder of an outer lease or as its owner,
// or returns what lets it read past everybody. Neither nor an error means that the caller has nothing.
func (r *rwResource) allowed(ctx context.Context, l *Lease, t terms, limit time.Duration) (entered bool, under *rwGrant, err error) {
	writes, reads := r.of(ctx, l)
	switch {
	case l.kind == kindWrite && writes != nil:
		r.attach(writes, l)
		return true, nil, nil
	case l.kind == kindWrite && reads != nil:
		return false, nil, ErrUpgrade
	case reads != nil && (reads.renewed() || !reads.terms.renew && !t.renew):
		r.attach(reads, l)
		return true, nil, nil
	case writes != nil:
		// What is held for reading beside a write lock is of the same holder.
		if g := r.joinable(t, limit, time.Now()); g != nil {
			r.attach(g, l)
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
func (r *rwResource) of(ctx context.Context, l *Lease) (writes, reads *rwGrant) {
	consider := func(x *Lease) {
		g, ok := x.grant.(*rwGrant)
		switch {
		case !ok || g.resource != r || g.lost != nil || x.unlocked.Load() || x.ended() != nil:
		case g.write:
			writes = g
		case reads == nil || g.renewed():
			reads = g
		}
	}
	for x := leaseFrom(ctx, r.c, r.key); x != nil; x = leaseFrom(x.parent, r.c, r.key) {
		consider(x)
	}
	if l.owner == nil {
		return writes, reads
	}
	for _, g := range r.all() {
		for _, x := range g.leases {
			if x.owner == l.owner {
				consider(x)
			}
		}
	}
	return writes, reads
}

// all returns what this process has.
func (r *rwResource) all() []*rwGrant {
	if r.write == nil {
		return r.reads
	}
	return append([]*rwGrant{r.write}, r.reads...)
}

// renewed reports whether the grant lives as long as its leases do.
func (g *rwGrant) renewed() bool { return g.terms.renew && g.limit == 0 }

// joinable returns the grant that one who wants to read on these terms may join, or nil.
func (r *rwResource) joinable(t terms, limit time.Duration, now time.Time) *rwGrant {
	if !t.renew || limit > 0 {
		return nil
	}
	for _, g := range r.reads {
		if g.terms == t && g.renewed() && g.trusted(now) && !g.wanted {
			return g
		}
	}
	return nil
}

// trusted reports whether there is enough trust left to give to somebody.
func (g *rwGrant) trusted(now time.Time) bool {
	return g.guard.Until().Sub(now) >= min(g.terms.ttl, handOverLease)/3
}

// probe asks whether anybody waits to write, since readers that come and go without end would keep out one, and has nobody
// join them if so. They may not hear of it: a Java program tells nobody, and some of this library do not listen.
func (r *rwResource) probe(now time.Time) {
	r.probed = now
	r.stay()
	r.c.spawn(func() {
		defer r.quit()
		waits, err := r.c.net.Run(r.lock.Yield(probeEvery)).Bool()
		if err != nil || !waits {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, g := range r.reads {
			g.wanted = true
		}
	})
}

// join puts w at the end of the queue.
func (r *rwResource) join(w *waiter) entry {
	if w.rw.under != nil {
		return toAsk
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.lease.owner != nil { // who may have been granted something a moment ago
		allowed, under, err := r.allowed(w.lease.parent, w.lease, w.terms, w.limit)
		switch {
		case allowed:
			w.place.granted = true
			return entered
		case err != nil:
			w.notify(event{kind: failed, err: err})
			return toWait
		case under != nil:
			w.rw.under = under
			return toAsk
		}
	}
	if w.once && (r.queue.length > 0 || r.has(w)) {
		return turnedAway
	}
	r.queue.push(w)
	w.place.leading = r.queue.first == w && r.ready(w)
	if w.place.leading {
		return toAsk
	}
	return toWait
}

// has reports whether this process has what keeps w out.
func (r *rwResource) has(w *waiter) bool { return r.write != nil || w.rw.write && len(r.reads) > 0 }

// last returns whether this process has what keeps w out, and what Redis said last.
func (r *rwResource) last(w *waiter) (held bool, said answerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.queue.first
	return r.has(w) || first != nil && r.has(first), r.answers.look()
}

// remind has the head of the queue ask.
func (r *rwResource) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promptHead()
}

// ready reports whether the head of the queue, w, may ask Redis.
func (r *rwResource) ready(w *waiter) bool {
	switch {
	case r.busy > 0 || r.write != nil || w.place.granted:
		return false
	case w.rw.write:
		return len(r.reads) == 0
	}
	return true
}

// promptHead makes it the head's turn to ask, unless there is no need. One who wants to read may find a grant to
// join. A head whose turn it is already is reminded.
func (r *rwResource) promptHead() {
	for {
		w := r.queue.first
		if w == nil {
			return
		}
		if !w.rw.write && w.rw.n == 0 && r.write == nil && r.c.granting() {
			if g := r.joinable(w.terms, w.limit, time.Now()); g != nil {
				r.queue.remove(w)
				r.assign(g, w)
				continue
			}
		}
		switch {
		case !r.ready(w):
		case w.place.leading:
			w.poke()
		default:
			w.place.leading = true
			w.notify(event{kind: turn})
		}
		return
	}
}

// ask sends one request for w.
func (r *rwResource) ask(w *waiter) {
	tk := w.rw
	r.mu.Lock()
	if w.place.granted {
		r.mu.Unlock()
		return // it was given what it wants a moment ago
	}
	if tk.n == 0 {
		tk.n = r.c.ticketNumbers.Add(1)
		tk.field = r.lock.Field(tk.n, tk.write)
		tk.ttl = w.terms.ttl
		r.c.connect(tk.n, r.key, tk)
	}
	tk.asking = true
	if tk.under == nil {
		r.busy++
		r.answers.asks()
	}
	var place protocol.Stay
	if !w.once {
		place = protocol.Stay{For: lineFor, Deaf: w.terms.polling || tk.stands && !r.c.attends(r.key)}
		tk.stands = true
	}
	fenced := w.terms.fenced
	r.mu.Unlock()

	w.asks.Add(1)
	r.stay()
	r.c.spawn(func() {
		defer r.quit()
		sent := time.Now() // before the request: trust is counted from here
		reply, err := r.send(tk, place, fenced)
		rest := r.settle(tk, sent, reply, err)
		w.asks.Add(-1)
		if rest != nil {
			r.c.spawn(rest) // it may take as long as a lease, and has the resource stay as long as it needs it
		}
	})
}

// send asks Redis for tk.
func (r *rwResource) send(tk *rwTicket, place protocol.Stay, fenced bool) (reply protocol.Verdict, err error) {
	if tk.write {
		tokens := 0
		if fenced {
			tokens = 1
		}
		numbers, err := r.c.net.RunGrant(r.lock.Write(tk.field, place, tokens, tk.ttl), isGranted).Ints()
		if err != nil {
			return reply, err
		}
		return protocol.ReadRWWrite(numbers)
	}
	under := ""
	if tk.under != nil {
		under = tk.under.ticket.field
	}
	n, err := r.c.net.RunGrant(r.lock.Read(tk.field, under, place, tk.ttl), isGranted).Int()
	return protocol.ReadRWRead(n), err
}

// settle deals with the answer to the request that was sent for tk. It returns what is left to do when nobody wants what was
// granted, or may have been.
func (r *rwResource) settle(tk *rwTicket, sent time.Time, reply protocol.Verdict, err error) (rest func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk.under == nil {
		r.busy--
		r.answers.says(err == nil && !reply.Granted(), err)
	}
	tk.asking = false
	tk.outcomeUnknown = tk.outcomeUnknown || transport.Unknown(err) || transport.Begun(err)
	w := tk.w
	if err == nil {
		tk.unclaimedGrant = reply.Granted()
	}
	tk.unclaimedGrant = tk.unclaimedGrant || transport.Unconfirmed(err)
	switch {
	case tk.left:
		rest = r.drop(tk)
		r.promptHead()
		return rest
	case err != nil:
		w.notify(event{kind: failed, err: err})
	case !tk.unclaimedGrant:
		tk.forced = false
		if tk.counted == nil && !w.once && !w.terms.polling {
			tk.counted = r.c.net.Listen(r.lock.WaiterChannel(), func(hub.Event) {})
		}
		pause := lineFor / 2
		if reply.Wait >= 0 {
			pause = min(pause, time.Duration(reply.Wait)*time.Millisecond)
		}
		w.notify(event{kind: refusedFor, ttl: pause, foreign: true, inLine: true})
	case !r.c.granting():
		w.notify(event{kind: failed, err: ErrClosed}) // it is on its way out
	case !time.Now().Before(sent.Add(tk.ttl - watchdog.Margin(tk.ttl))):
		w.notify(event{kind: failed, err: errLate})
	case tk.forced:
		tk.forced = false // what Redis said is over; it is asked again
		w.notify(event{kind: turn})
	default:
		tk.unclaimedGrant = false
		g := r.promote(tk, sent)
		if w.terms.fenced {
			w.lease.token = reply.Token
		}
		if tk.under == nil {
			r.queue.remove(w)
		}
		r.assign(g, w)
		r.promptHead()
	}
	return nil
}

// promote turns a ticket that was granted into a grant and has it guarded, from the time sent.
func (r *rwResource) promote(tk *rwTicket, sent time.Time) *rwGrant {
	t := tk.w.terms
	g := &rwGrant{resource: r, ticket: tk, write: tk.write, terms: t, limit: tk.w.limit}
	g.guard = watchdog.Lease{Holding: g, TTL: t.ttl, Renew: t.renew}
	tk.grant, tk.stands, g.wanted = g, false, tk.wants
	tk.uncount()
	if tk.write {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = time.Now()
	}
	r.stay()
	r.c.held(1)
	if !t.polling {
		r.c.hearFor(r.key)
	}
	r.c.watchdog.Start(&g.guard, sent, t.ttl)
	return g
}

// assign hands the grant to w, and to those in the queue who come with it.
func (r *rwResource) assign(g *rwGrant, w *waiter) {
	w.place = place{granted: true}
	r.attach(g, w.lease)
	if g.write && (w.limit != g.limit || w.limit > 0) || !g.write && w.limit > 0 {
		g.limit = w.limit
		var at time.Time
		if w.limit > 0 {
			at = w.lease.began.Add(w.limit).Std()
		}
		r.c.watchdog.Limit(&g.guard, at)
	}
	owner := w.lease.owner
	w.notify(event{kind: given}) // from here on another call may use w
	if owner != nil {
		r.admit(g, owner)
	}
}

// admit lets those in the queue in who are of the owner that was given g, and would wait for themselves.
func (r *rwResource) admit(g *rwGrant, owner *Owner) {
	for w := r.queue.first; w != nil; {
		next := w.place.after
		switch {
		case w.lease.owner != owner || w.rw.n > 0:
		case g.write && !w.rw.write:
			r.queue.remove(w)
			w.rw.under = g
			g.shown = true
			w.notify(event{kind: turn})
		case g.write:
			r.queue.remove(w)
			w.place = place{granted: true}
			r.attach(g, w.lease)
			w.notify(event{kind: given})
		case w.rw.write:
			r.queue.remove(w) // notified once, and in nobody's way
			w.notify(event{kind: failed, err: ErrUpgrade})
		}
		w = next
	}
}

// attach makes l a lease of g: the first, or one that enters it too.
func (r *rwResource) attach(g *rwGrant, l *Lease) {
	if g.write && len(g.leases) > 0 {
		l.token = g.leases[0].token
	}
	if len(g.leases) > 0 {
		l.came = fromItself
	}
	l.begin(g, &g.guard)
	l.at = int32(len(g.leases))
	g.leases = append(g.leases, l)
}

// detach takes l out of the leases of g.
func (g *rwGrant) detach(l *Lease) {
	last := len(g.leases) - 1
	g.leases[l.at] = g.leases[last]
	g.leases[l.at].at = l.at
	g.leases[last] = nil
	g.leases = g.leases[:last]
}

// reenter is not how an rwGrant is entered again, for that depends on the side.
func (g *rwGrant) reenter(_, _ *Lease) bool { return false }

// leave takes w out. If it was given the lease after all, that is unlocked.
func (r *rwResource) leave(w *waiter) {
	r.mu.Lock()
	if w.place.granted {
		r.mu.Unlock()
		l := w.lease
		r.c.spawn(func() { _ = l.grant.unlock(l) })
		return
	}
	tk := w.rw
	if w.place.queued {
		r.queue.remove(w)
	}
	tk.left = true
	var rest func()
	if !tk.asking {
		rest = r.drop(tk)
	}
	r.promptHead()
	r.mu.Unlock()
	if rest != nil {
		r.c.spawn(rest)
	}
}

// drop gives up a ticket whose waiter has gone. It returns what is left to do without holding r.mu, or nil.
func (r *rwResource) drop(tk *rwTicket) (rest func()) {
	tk.uncount()
	switch {
	case tk.unclaimedGrant:
		r.busy++
		r.stay()
		return func() { _ = r.free(tk, nil) }
	case tk.n > 0:
		r.c.disconnect(tk.n)
	}
	switch {
	case tk.outcomeUnknown:
		return func() { r.withdraw(tk) }
	case tk.stands:
		return func() {
			if _, err := r.releaseOnce(tk); err != nil {
				r.withdraw(tk)
			}
		}
	}
	return nil
}

// uncount notes that the waiter listens no more, and has no turn to wait for.
func (tk *rwTicket) uncount() {
	if tk.counted != nil {
		tk.counted.Close()
	}
	if tk.recheck != nil {
		tk.recheck.Stop()
	}
}

// unlock ends l. The last lease of a grant passes it on or frees it.
func (g *rwGrant) unlock(l *Lease) error {
	r := g.resource
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	r.mu.Lock()
	if len(g.leases) > 1 {
		g.detach(l)
		cause := g.lost
		r.mu.Unlock()
		l.end(ErrReleased)
		return cause
	}
	r.mu.Unlock()

	l.end(ErrReleased) // before anybody else can get it

	r.mu.Lock()
	g.detach(l)
	if len(g.leases) > 0 {
		defer r.mu.Unlock()
		return g.lost // somebody has joined
	}
	if g.lost != nil {
		defer r.mu.Unlock()
		if g.ticket.outcomeUnknown || !errors.Is(g.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			r.c.spawn(func() { r.withdraw(g.ticket) })
		}
		return g.lost
	}
	if next := r.queue.first; r.canPass(g, next) {
		g.passed++
		r.c.counts.local.Add(1)
		next.lease.came = fromHere
		r.queue.remove(next)
		r.assign(g, next)
		r.mu.Unlock()
		return nil
	}
	r.remove(g)
	r.busy++
	r.c.watchdog.Stop(&g.guard)
	r.mu.Unlock()

	done := make(chan error, 1)
	r.c.spawn(func() { _ = r.free(g.ticket, done) })
	timer := time.NewTimer(r.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
			return cause // by the clock, before the watchdog could say so
		}
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", r.c.opts.OpTimeout)
	}
}

// canPass reports whether w, who wants to write, can have the grant of another writer as it is: on the same terms,
// with enough trust left, and not for too many times in a row, since nobody knows who else waits. A lease
// of fixed length cannot be passed on, nor one that somebody may still be let in to read by, and each with a
// token gets one of its own.
func (r *rwResource) canPass(g *rwGrant, w *waiter) bool {
	return w != nil && g.write && !g.shown && !g.guard.Extended() && len(r.reads) == 0 && w.rw.write && w.rw.n == 0 && w.terms == g.terms && g.terms.renew &&
		!g.terms.fenced && g.passed+1 < r.c.opts.Cohort && r.c.granting() && g.trusted(time.Now())
}

// remove takes a grant out of what the process has.
func (r *rwResource) remove(g *rwGrant) {
	if g.write {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *rwGrant) bool { return x == g })
}

// revoke ends the leases of a grant that Redis has for somebody else now, or may have soon.
func (r *rwResource) revoke(g *rwGrant, cause error) {
	r.mu.Lock()
	if r.write != g && !slices.Contains(r.reads, g) {
		r.mu.Unlock()
		return // it is being released
	}
	r.remove(g)
	r.busy++ // the next one asks when the present ones know
	g.lost = lost(cause)
	r.mu.Unlock()

	r.endLeases(g, lost(cause))
	r.c.depart(g.ticket.n, &g.guard, cause, func() {})

	r.mu.Lock()
	r.busy--
	r.promptHead()
	r.mu.Unlock()
	r.c.held(-1)
	r.quit()
}

// endLeases ends the leases of a grant.
func (r *rwResource) endLeases(g *rwGrant, cause error) {
	r.mu.Lock()
	leases := slices.Clone(g.leases)
	r.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// held returns what the process has for reading, or for writing with what it reads under that.
func (r *rwResource) held(write bool) []*rwGrant {
	r.mu.Lock()
	defer r.mu.Unlock()
	if write != (r.write != nil) {
		return nil
	}
	return slices.Clone(r.all())
}

// entered returns how many leases the process has for writing, and for reading.
func (r *rwResource) entered() (writes, reads int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.write != nil {
		writes = len(r.write.leases)
	}
	for _, g := range r.reads {
		reads += len(g.leases)
	}
	return writes, reads
}

// changed has what the process has looked at, since somebody changed it.
func (r *rwResource) changed() {
	r.mu.Lock()
	holds := slices.Clone(r.all())
	r.mu.Unlock()
	for _, g := range holds {
		r.c.watchdog.Look(&g.guard)
	}
}

// close ends the leases of this resource because the client is closed. It sends nothing to Redis.
func (r *rwResource) close() {
	r.mu.Lock()
	r.shut = true
	holds := slices.Clone(r.all())
	r.mu.Unlock()
	for _, g := range holds {
		r.endLeases(g, ErrClosed)
	}
}

// free gives a ticket back, lets the queue go on, and tells done of the outcome unless that is nil. The resource is
// busy until then, and left by the caller's stay.
func (r *rwResource) free(tk *rwTicket, done chan<- error) error {
	defer r.quit()
	err := r.release(tk)
	r.c.disconnect(tk.n)
	if tk.grant != nil {
		r.c.held(-1)
	}
	r.mu.Lock()
	r.busy--
	r.promptHead()
	r.mu.Unlock()
	if done != nil {
		done <- err // not sooner: who has unlocked finds the resource ready
	}
	return err
}

// release gives a ticket back. It tries until Redis has answered, at most for Options.OpTimeout;
// after that it goes on in the background.
func (r *rwResource) release(tk *rwTicket) error {
	return r.c.giveBack(tk.outcomeUnknown, false, func() (bool, error) {
		done, err := r.releaseOnce(tk)
		return done != protocol.NotOurs, err
	}, func() { r.c.spawn(func() { r.withdraw(tk) }) })
}

func (r *rwResource) releaseOnce(tk *rwTicket) (protocol.Outcome, error) {
	done, err := r.c.net.Run(r.lock.Release(tk.field)).Int()
	return protocol.Outcome(done), err
}

// withdraw makes sure that Redis does not keep the lock, or a place in line, for a ticket that nobody wants any more. It takes
// as long as a lease, and the resource may be forgotten meanwhile.
func (r *rwResource) withdraw(tk *rwTicket) {
	r.c.withdrawBy(r.key, tk.ttl, func() error {
		_, err := r.releaseOnce(tk)
		return err
	})
}

// queueKey says that those who wait get messages in line, though nothing is handed to them.
func (r *rwResource) queueKey() string { return r.key }

// handed is said of no ticket to a read-write lock.
func (tk *rwTicket) handed(uint64, handOver) {}

// look has the waiter ask: it is its turn.
func (tk *rwTicket) look(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant == nil && !tk.left {
		tk.w.poke()
	}
}

// soon has the waiter ask in d, in case nobody comes whose turn it is until then.
func (tk *rwTicket) soon(n uint64, d time.Duration) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	switch {
	case tk.grant != nil || tk.left:
	case tk.recheck != nil:
		tk.recheck.Reset(d)
	default:
		tk.recheck = time.AfterFunc(d, func() { tk.look(n) })
	}
}

// resubscribed has the waiter ask: what was said while nobody listened is not known. Who reads asks soon by itself, see probe.
func (tk *rwTicket) resubscribed(n uint64) { tk.look(n) }

// wanted notes that somebody waits for what tk has, or is about to have.
func (tk *rwTicket) wanted(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.wants = true; tk.grant != nil {
		tk.grant.wanted = true
	}
}

// taken deals with the message that what tk has was taken by force.
func (tk *rwTicket) taken(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if g := tk.grant; g != nil {
		tk.r.c.spawn(func() { tk.r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused) })
		return
	}
	tk.forced = true
}
