package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A call is one call of a lock and what became of it.
type call struct {
	p      *process
	worker int
	n      int
	keys   []string
	kind   string
	units  int // of each key; 0 for all of it; guarded by watch.mu once it is called
	once   bool
	limit  time.Duration // of its context, or 0
	wait   time.Duration
	fixed  time.Duration // the length of its lease, if that is not renewed
	most   time.Duration

	// Guarded by watch.mu. Times are since the world began; zero if they have not come.
	began, failed, granted, ending, ended time.Duration
	longest                               time.Duration // for which it may have been asked to live
	lease                                 held
	token                                 int64
	err, unlockErr                        error
	missing                               time.Duration // since when the server does not have it
	lost                                  bool          // its lease was over before it was released
	stale                                 bool          // its token was drawn before a server forgot who has the lock
	after                                 int64         // the largest token that was known when it was called
	partials                              []partial
}

func (c *call) String() string {
	return fmt.Sprintf("call %d (process %d, goroutine %d, %s %q)", c.n, c.p.id, c.worker, c.kind, c.keys)
}

// A watch checks what must hold, after each event at a server and when calls return.
//
//   - No more is trusted of a key, by all processes together, than there is.
//   - What a process trusts, the server has for it, unless it was made to forget.
//   - A process that trusts a lease that the server has forgotten learns of the loss before its trust would have run out without an answer.
//   - When the trust in a lease ends, its context ends.
//   - No lock is left without a time to live.
//   - Tokens rise.
//   - No process has a key for long that none of its calls wants, if nothing was broken of late.
//   - A key that is free while somebody waits for it is granted at once, if nothing was broken of late.
//   - Calls end with their contexts, and fail for reasons that the world has given.
//   - In the end everybody was served, and nothing is left in Redis, subscribed or running.
type watch struct {
	w *world

	mu      sync.Mutex // taken before w.mu
	calls   []*call
	trusted byKey // and not yet being released
	pending byKey
	largest map[string]int64 // token, by key
	free    map[string]*freedom
	longest time.Duration // that a free key was waited for in quiet
	denials []denial

	unwanted map[string]time.Duration // since when a process has a key that none of its calls wants, by both

	// Guarded by w.mu.
	active    int           // faults that go on
	lastFault time.Duration // when the last one ended
	forgot    time.Duration // when a server last forgot something
	forgotten bool
}

// freedom is since when nobody has a key.
type freedom struct {
	since time.Duration // 0 while it is held
	until time.Duration // while it is held: when that ends unless it is prolonged
	dead  time.Duration // for how long more it may be free, since the next ones may be dead
}

func newWatch(w *world) *watch {
	return &watch{w: w, trusted: byKey{}, pending: byKey{}, largest: map[string]int64{}, free: map[string]*freedom{}, unwanted: map[string]time.Duration{}}
}

func (v *watch) now() time.Duration { return time.Since(v.w.began) }

// disturbed notes that something is broken at this moment. The caller holds w.mu.
func (v *watch) disturbed() { v.lastFault = v.now() }

// forgets notes that a server forgets something at this moment. The caller holds w.mu.
func (v *watch) forgets() { v.forgot, v.forgotten = v.now(), true }

// shaky reports whether something was broken of late, so that errors are to be expected.
func (v *watch) shaky() bool { return v.quietSince() >= v.now() }

// quietSince returns since when nothing has been broken that somebody may still suffer from. It is in the future while that is so.
func (v *watch) quietSince() time.Duration {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	switch {
	case v.active > 0:
		return 1 << 62
	case v.lastFault == 0:
		return 0
	}
	return v.lastFault + v.w.plan.watchdog + settle
}

// settle is how long after a fault and a lease everything is as if it had not been.
const settle = 5 * time.Second

func (v *watch) called(c *call) {
	v.mu.Lock()
	v.calls = append(v.calls, c)
	c.n, c.began, c.after = len(v.calls), v.now(), v.largest[c.keys[0]]
	c.longest = max(v.w.plan.watchdog, c.fixed)
	if !c.once {
		v.pending.add(c)
	}
	v.mu.Unlock()
	v.w.note("%s: wants it, fixed %v, at most %v, wait %v, limit %v, once %v", c, c.fixed, c.most, c.wait, c.limit, c.once)
}

// byKey are calls by the keys that they are about.
type byKey map[string][]*call

func (b byKey) add(c *call) {
	for _, key := range c.keys {
		b[key] = append(b[key], c)
	}
}

func (b byKey) remove(c *call) {
	for _, key := range c.keys {
		b[key] = slices.DeleteFunc(slices.Clone(b[key]), func(x *call) bool { return x == c })
	}
}

func (v *watch) failed(c *call, ctx context.Context, err error) {
	v.mu.Lock()
	c.failed, c.err = v.now(), err
	v.pending.remove(c)
	v.mu.Unlock()
	v.w.note("%s: %v", c, err)
	if c.p.gone() || v.w.over() {
		return
	}
	var why string
	ended := ctx.Err() != nil
	switch {
	case errors.Is(err, lockrt.ErrClosed):
		if !c.p.leaving() {
			why = "is told that the client is closed"
		}
	case errors.Is(err, lockrt.ErrNotAcquired):
		if !c.once && c.wait == 0 && c.fixed == 0 {
			why = "is told that somebody else has it, though it waits"
		}
	case ended && errors.Is(err, ctx.Err()):
		if deadline, ok := ctx.Deadline(); ok && time.Since(deadline) > 50*time.Millisecond {
			why = fmt.Sprintf("returns %v after the end of its context", time.Since(deadline))
		}
	case !v.shaky():
		why = "fails though nothing is broken"
	}
	if why != "" {
		v.w.fail("%s %s: %v", c, why, err)
	}
}

func (v *watch) granted(c *call, l held) {
	var bad []string
	v.mu.Lock()
	c.granted, c.lease, c.token = max(1, v.now()), l, l.Token()
	v.pending.remove(c)
	v.trusted.add(c)
	if !v.w.plan.forgets && v.w.plan.kind.room == 1 {
		c.after = v.largest[c.keys[0]] // a later return is of a later grant, as long as no server loses data
	}
	c.stale = c.token != 0 && c.token <= c.after && v.passedOn(c)
	if c.token != 0 && !c.p.gone() && c.token <= c.after && !(v.w.plan.back && v.w.plan.forgets) && !c.stale {
		bad = append(bad, fmt.Sprintf("%s has token %d, and %d was there before", c, c.token, c.after))
	}
	v.largest[c.keys[0]] = max(v.largest[c.keys[0]], c.token)
	for _, key := range c.keys {
		bad = append(bad, v.exclusive(key)...)
	}
	v.mu.Unlock()
	v.w.note("%s: granted until %v, token %d", c, l.Until().Sub(v.w.began), c.token)
	v.report(bad)
	if v.w.elected != nil && !c.p.gone() {
		v.w.elected(c, l)
	}
	if v.w.plan.kind.hash {
		v.probe(c, time.Now())
	}
}

// passedOn reports whether a process may have passed on what a server forgot: it had the tokens before that. The caller holds v.mu.
func (v *watch) passedOn(c *call) bool {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	return v.forgotten && v.now() <= v.forgot+v.w.plan.watchdog && slices.ContainsFunc(v.calls, func(before *call) bool {
		return before.p == c.p && before.keys[0] == c.keys[0] && before.granted > 0 && before.granted <= v.forgot && before.token < c.token
	})
}

// probe checks everything at a time, and again each time that the trust in a lease is about to end. A renewed lease has
// another end. When the trust has ended, probe checks the context.
func (v *watch) probe(c *call, at time.Time) {
	v.w.net.at(at, func() {
		for _, s := range v.w.servers {
			s.m.SetTime(s.clock())
			v.observe(s, nil)
		}
		v.mu.Lock()
		over := c.ending != 0 || !c.trusts()
		v.mu.Unlock()
		switch next := c.lease.Until().Add(-1); {
		case over || v.w.over():
		case time.Now().Before(next):
			v.probe(c, next)
		default:
			v.w.net.at(time.Now().Add(soon), func() { v.lapsed(c) })
		}
	})
}

// soon is the time after the end of the trust in a lease when its context has ended.
const soon = 50 * time.Millisecond

// lapsed checks that the context of a lease has ended, as the trust in the lease has. It does not call Err of the lease, which would end the
// lease itself.
func (v *watch) lapsed(c *call) {
	v.mu.Lock()
	_, java := c.lease.(*javaHeld) // nothing ends its context
	left := java || c.ending != 0 || c.p.gone() || c.p.leaving()
	v.mu.Unlock()
	if left || v.w.over() {
		return
	}
	if until := c.lease.Until(); time.Now().Before(until) { // it was renewed at the last moment
		v.probe(c, until.Add(-1))
		return
	}
	select {
	case <-c.lease.Context().Done():
	default:
		v.w.fail("%s: its context goes on %v after the end of its trust", c, soon)
	}
}

func (v *watch) report(bad []string) {
	for _, b := range bad {
		v.w.fail("%s", b)
	}
}

func (v *watch) extended(c *call) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.longest = max(c.longest, 100*time.Millisecond+2*v.w.plan.watchdog)
}

func (v *watch) ending(c *call) {
	v.mu.Lock()
	c.ending, c.lost = v.now(), c.lease.Err() != nil
	v.trusted.remove(c)
	v.mu.Unlock()
	v.w.note("%s: gives it back", c)
}

func (v *watch) ended(c *call, err error) {
	v.mu.Lock()
	c.ended, c.unlockErr = v.now(), err
	v.mu.Unlock()
	v.w.note("%s: gave it back: %v", c, err)
	if c.p.gone() || v.w.over() {
		return
	}
	var why string
	switch took := c.ended - c.ending; {
	case took > lockrt.DefaultOpTimeout+100*time.Millisecond && c.kind != "redisson":
		why = fmt.Sprintf("took %v to give it back", took)
	case err == nil, c.p.leaving():
	case v.excused(c):
	case errors.Is(err, lockrt.ErrLost) && c.most > 0 && c.ending-c.granted >= c.most:
	case errors.Is(err, lockrt.ErrLost) && c.most > 0 && len(c.keys) > 1 && c.ending-c.began >= c.most: // each member counts from its own grant
	case errors.Is(err, lockrt.ErrLost) && c.fixed > 0 && c.ending-c.granted+v.w.plan.prompt() > c.fixed*9/10:
	case !v.shaky():
		why = "cannot give it back though nothing is broken"
	}
	if why != "" {
		v.w.fail("%s %s: %v", c, why, err)
	}
}

// excused reports whether a server forgot something while a call had what it was granted, or while its process had what it
// passed on to the call. A process that nobody answers trusts no lease for longer than a watchdog time.
func (v *watch) excused(c *call) bool {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	return v.forgotten && c.began <= v.forgot+v.w.plan.watchdog+v.w.plan.prompt()
}

// takes returns how much of each key it wants.
func (c *call) takes() int {
	if c.units == 0 {
		return c.p.w.plan.kind.room
	}
	return c.units
}

// trusts reports whether the holder trusts what it has at this moment.
func (c *call) trusts() bool {
	if c.p.gone() {
		return false
	}
	select {
	case <-c.lease.Context().Done():
		return false
	default:
		return time.Now().Before(c.lease.Until())
	}
}

// exclusive checks that no more of a key is trusted than there is. The caller holds v.mu.
func (v *watch) exclusive(key string) (bad []string) {
	used, excused := 0, false
	var who []string
	for _, c := range v.trusted[key] {
		if !c.trusts() {
			continue
		}
		used = used + c.takes()
		excused = excused || v.excused(c)
		who = append(who, c.String())
	}
	if used > v.w.plan.kind.room && !excused {
		bad = append(bad, fmt.Sprintf("two trust %q: %s", key, strings.Join(who, ", ")))
	}
	return bad
}
