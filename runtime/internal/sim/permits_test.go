package sim

import (
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// singly does something to one permit of those that a call has, or asks how many there are.
func (g *worker) singly(c *call, s *lockrt.PermitSemaphore, p *lockrt.Permit) {
	w, ids := g.p.w, p.PermitIDs()
	if len(ids) == 0 || !g.also.chance(60) {
		return
	}
	id, lease := ids[g.also.rng.IntN(len(ids))], w.plan.watchdog+g.also.upTo(2*w.plan.watchdog) // longer than it is trusted
	var err error
	what, there, total := "", true, 3
	switch g.also.rng.IntN(7) {
	case 0, 1:
		what = "setting the lease of one permit"
		there, err = s.UpdateLease(g.p.ctx, id, lease)
	case 2:
		what = "asking for the lease of one permit"
		_, err = s.TTL(g.p.ctx, id)
	case 3:
		what = "counting all permits"
		total, err = s.Total(g.p.ctx)
	case 4:
		what = "setting how many permits there are"
		err = s.SetPermits(g.p.ctx, total)
	case 5:
		what = "creating the semaphore"
		_, err = s.TrySetPermits(g.p.ctx, total, 0)
	case 6:
		if len(ids) == 1 || !w.watch.fewer(c) {
			return
		}
		what = "releasing one permit"
		err = s.Release(g.p.ctx, id)
		w.watch.fewerNow(c, err)
	}
	w.note("%s: %s: %v", c, what, err)
	switch {
	case p.Err() != nil || g.p.ctx.Err() != nil || w.watch.shaky() || w.watch.excusesOf(c):
	case err != nil:
		w.fail("%s: %s: %v", c, what, err)
	case !there || total != 3:
		w.fail("%s: %s: there %v, %d in all", c, what, there, total)
	}
}

// A partial is a release of one of the permits of a call. Times are as in a call.
type partial struct {
	began, ended time.Duration // ended is 0 if it is not known to have been done
}

// fewer notes that a call is about to release one of its permits. It reports false if that may be the last.
func (v *watch) fewer(c *call) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.units == 1 {
		return false
	}
	c.units--
	c.partials = append(c.partials, partial{began: v.now()})
	return true
}

// fewerNow notes that it has.
func (v *watch) fewerNow(c *call, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		c.partials[len(c.partials)-1].ended = v.now()
	}
}

// excusesOf reports whether a server forgot something while a call had what it was granted.
func (v *watch) excusesOf(c *call) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.excused(c)
}
