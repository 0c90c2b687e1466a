package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// observe checks everything after an event.
func (v *watch) observe(s *server, e *event) {
	var bad []string
	v.mu.Lock()
	if d, ok := denialOf(e); ok {
		v.denials = append(v.denials, d)
	}
	for _, key := range slices.Sorted(maps.Keys(v.trusted)) {
		bad = append(bad, v.exclusive(key)...)
		if v.w.plan.single() {
			bad = append(bad, v.known(s, key)...)
		}
	}
	if v.w.plan.single() && v.w.plan.kind.prompt {
		bad = append(bad, v.announced(s, e)...)
		bad = append(bad, v.served(s)...)
		bad = append(bad, v.wanted(s)...)
	}
	bad = append(bad, v.mortal(s)...)
	v.mu.Unlock()
	v.report(bad)
}

// known checks that the server has what is trusted.
func (v *watch) known(s *server, key string) (bad []string) {
	if len(v.trusted[key]) == 0 || !v.w.plan.kind.hash {
		return nil
	}
	owners, _ := v.w.whole(s, key).HKeys(key)
	for _, c := range v.trusted[key] {
		has := slices.ContainsFunc(owners, func(o string) bool { return strings.HasPrefix(o, c.p.uuid) })
		if has || !c.trusts() {
			c.missing = 0
			continue
		}
		if c.missing == 0 {
			c.missing = v.now()
		}
		switch {
		case !v.excused(c):
			bad = append(bad, fmt.Sprintf("%s trusts what the server does not have", c))
		case v.now()-c.missing > c.longest:
			bad = append(bad, fmt.Sprintf("%s trusts what the server has not had for %v", c, v.now()-c.missing))
		}
	}
	return bad
}

// wanted checks that no process has a lock for longer than a hand-over lasts while none of its calls wants it, unless something was broken
// of late: the module's InvWithdrawn. It does not ask this of Redisson, which does not try a release again that the server has refused.
func (v *watch) wanted(s *server) (bad []string) {
	now, quiet := v.now(), v.quietSince()
	for i := range v.w.plan.keys {
		key := fmt.Sprintf("key%d", i)
		owners, _ := v.w.whole(s, key).HKeys(key)
		goesOn := map[*process]bool{} // of those with a call of the key
		for _, c := range v.calls {
			if slices.Contains(c.keys, key) && c.kind != "redisson" {
				goesOn[c.p] = goesOn[c.p] || c.failed == 0 && c.ended == 0
			}
		}
		for p, wants := range goesOn {
			at := fmt.Sprint(key, " ", p.id)
			has := slices.ContainsFunc(owners, func(o string) bool { return p.uuid != "" && strings.HasPrefix(o, p.uuid) })
			if wants || !has || p.gone() || p.leaving() {
				delete(v.unwanted, at)
				continue
			}
			since, known := v.unwanted[at]
			if !known {
				v.unwanted[at] = now
			} else if d := now - max(since, quiet); d > protocol.HandOverLease+v.w.plan.prompt() {
				bad = append(bad, fmt.Sprintf("process %d has %q for %v, and no call of it wants it", p.id, key, d))
			}
		}
	}
	return bad
}

// mortal checks that all that is in Redis expires.
func (v *watch) mortal(s *server) (bad []string) {
	for _, key := range s.m.Keys() {
		if s.m.TTL(key) == 0 && !v.w.plan.kind.eternal(key) && !v.w.plan.kind.undying(key) {
			bad = append(bad, fmt.Sprintf("%q will never expire", key))
		}
	}
	return bad
}

// announced checks that a script that frees a mutex publishes that to those that listen, as Redisson's waiters do. It comes before served, which
// notes that the mutex is free. e is nil if time has passed and nothing else.
func (v *watch) announced(s *server, e *event) (bad []string) {
	if e == nil || e.script != "release" && e.script != "free" || e.denied || v.w.cluster != nil || strings.Contains(e.reply, ":-1\r") {
		return nil // or it did not have all of them
	}
	for i := range v.w.plan.keys {
		key := fmt.Sprintf("key%d", i)
		f := v.free[key]
		if f == nil || f.since > 0 || v.now() > f.until || s.m.Exists(key) {
			continue
		}
		channel := protocol.LockChannel(key)
		said := slices.ContainsFunc(e.effects, func(c []string) bool { return c[0] == "publish" && c[1] == channel })
		v.w.mu.Lock()
		listeners := len(s.heard[channel])
		v.w.mu.Unlock()
		if listeners > 0 && !said {
			bad = append(bad, fmt.Sprintf("%q was freed, and %s did not tell those that listen", key, e.script))
		}
	}
	return bad
}

// served checks that no key is free for longer than it takes to grant it while somebody waits for it.
func (v *watch) served(s *server) (bad []string) {
	now, quiet := v.now(), v.quietSince()
	for i := range v.w.plan.keys {
		key := fmt.Sprintf("key%d", i)
		f := v.free[key]
		if f == nil {
			f = &freedom{since: now}
			v.free[key] = f
		}
		m := v.w.whole(s, key)
		held := m.Exists(key)
		f.dead = max(f.dead, v.waitsForDead(m, key))
		if f.since == 0 && now > f.until { // it has expired, and may have been granted again at once
			f.since = f.until
		}
		if f.since > 0 {
			from := max(f.since, quiet)
			waits := time.Duration(1 << 62)
			for _, c := range v.pending[key] {
				passedOver := c.kind == "redisson" && v.w.plan.javasQueue // Redisson's scripts tell no thread that its place is over
				if !c.p.gone() && !c.p.leaving() && !passedOver {
					waits = min(waits, c.began)
				}
			}
			// The one that it is granted to has not heard of it yet, so it is among the waiters.
			if d := now - max(from, waits); d > 0 {
				v.longest = max(v.longest, d)
				if d > v.w.plan.prompt()+f.dead {
					bad = append(bad, fmt.Sprintf("%q was free for %v while somebody waited for it", key, d))
				}
			}
		}
		if !held {
			if f.since == 0 {
				f.since = max(1, now)
			}
			continue
		}
		f.since, f.until, f.dead = 0, now+m.TTL(key), 0
	}
	return bad
}

// waitsForDead returns for how long more a fair lock may stay free since the first in its queue does not listen: each process that is dead
// may come for it for as long as a hand-over lasts.
func (v *watch) waitsForDead(m *miniredis.Miniredis, key string) time.Duration {
	queue, _ := m.List("redisson_lock_queue:{" + key + "}")
	away, n := v.w.waitsForAway(m, key, queue)
	if queue = queue[n:]; len(queue) == 0 || strings.HasPrefix(queue[0], javaUUID) || v.w.serverOf(key).hears(key)(queue[0]) {
		return away
	}
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	dead := 1
	for _, p := range v.w.processes {
		if p.dead && !strings.HasPrefix(queue[0], p.uuid) {
			dead++
		}
	}
	if v.w.plan.javasQueue {
		away += 5 * time.Second // after a release by Redisson, the next waiter that asks by its timer finds the dead head
	}
	return away + time.Duration(dead)*protocol.HandOverLease
}

// prompt is how long a free key may stay free while somebody waits for it.
func (p *plan) prompt() time.Duration {
	d := 100*time.Millisecond + 40*p.latency
	if p.javasQueue {
		d += time.Second // a waiter that had a waiter of this library before it listens to Redisson's messages after a second
	}
	return d
}

// waiting returns the waiters.
func (v *watch) waiting() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, c := range v.calls {
		switch {
		case c.granted == 0 && c.failed == 0:
			all = append(all, c.String()+" waits")
		case c.granted > 0 && c.ended == 0:
			all = append(all, c.String()+" has it")
		}
	}
	return strings.Join(all, ", ")
}

// tally counts what the calls came to.
func (v *watch) tally() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	for _, c := range v.calls {
		v.w.count("calls", 1)
		if c.granted > 0 {
			v.w.count("grants", 1)
		}
		if c.lost {
			v.w.count("leases lost", 1)
		}
	}
}

// afterwards looks at what is left when all clients are closed.
func (v *watch) afterwards() {
	w := v.w
	if w.over() {
		return
	}
	time.Sleep(2 * time.Second) // for what is on its way
	for _, s := range w.servers {
		w.mu.Lock()
		var heard []string
		for channel, all := range s.heard {
			for _, c := range all {
				if !c.l.p.dead {
					heard = append(heard, channel)
				}
			}
		}
		w.mu.Unlock()
		if len(heard) > 0 {
			w.fail("subscriptions are left: %q", heard)
		}
		if w.plan.disturbs {
			continue
		}
		for _, key := range s.m.Keys() {
			if w.plan.kind.remains(key) || strings.HasPrefix(key, "lockgen_process:") { // the description of a process stays for a while longer
				continue
			}
			w.fail("%q is left, of type %s", key, s.m.Type(key))
		}
	}
}

// left looks at what is left when everything must have expired.
func (v *watch) left() {
	w := v.w
	if w.over() {
		return
	}
	for _, s := range w.servers {
		s.m.SetTime(s.clock())
		for _, key := range s.m.Keys() {
			dead := w.plan.kind.undying(key) && w.plan.disturbs // the next caller removes holds that were not released
			if !w.plan.kind.eternal(key) && !dead && s.m.TTL(key) == 0 {
				w.fail("%q is left for ever, of type %s", key, s.m.Type(key))
			}
		}
	}
	v.explain()
}
