package deadlock

import (
	"maps"
	"slices"
	"time"
)

// An arrival is a probe that has come to a call of this process.
type arrival struct {
	probe *probe
	wait  *Wait
}

// explore passes probes on, in this process and to others.
func (d *Detector) explore(now time.Duration, x *index, arrivals []arrival) {
	holders := map[uint64][]Holder{}
	for len(arrivals) > 0 {
		arrivals = slices.DeleteFunc(arrivals, func(a arrival) bool { return !d.passes(now, x, a) })
		d.ask(holders, arrivals)
		var next []arrival
		for _, a := range arrivals {
			s := step{Call: a.wait.Call}
			has := holders[a.wait.Number]
			if a.wait.Any {
				s.Any = owners(has)
				if slices.ContainsFunc(has, func(h Holder) bool { return h.Process == "" }) {
					continue // one that may go on
				}
			}
			for _, h := range has {
				s.Via = h.Owner
				on := &probe{Round: a.probe.Round, Path: append(slices.Clip(a.probe.Path), s)}
				switch h.Process {
				case "":
				case d.self:
					for _, w := range x.under[Lease{s.Key, s.Via}] {
						next = append(next, arrival{on, w})
					}
				default:
					d.out.add(now, h.Process, item{Probe: on})
				}
			}
		}
		arrivals = next
	}
}

// ask adds the holders of what calls wait for that are not known yet.
func (d *Detector) ask(holders map[uint64][]Holder, arrivals []arrival) {
	var of []*Wait
	for _, a := range arrivals {
		if _, known := holders[a.wait.Number]; !known {
			holders[a.wait.Number] = nil
			of = append(of, a.wait)
		}
	}
	if len(of) == 0 {
		return
	}
	for i, has := range d.world.Holders(of) {
		holders[of[i].Number] = has
	}
}

func owners(has []Holder) []string {
	names := make([]string, len(has))
	for i, h := range has {
		names[i] = h.Owner
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// passes reports whether the call passes on the probe. One that has come round is sent to its origin.
func (d *Detector) passes(now time.Duration, x *index, a arrival) bool {
	p, w := a.probe, a.wait
	if len(p.Path) == 0 {
		return true // it begins here
	}
	if p.has(w.ID) {
		d.sendBack(now, x, p, w)
		return false
	}
	if len(p.Path) >= mostPath {
		return false
	}
	picky := p.picky()
	if r := d.begun[w.Number]; r != nil && now-r.began <= d.interval*5/4 && !picky && w.compare(p.origin()) < 0 {
		return false
	}
	v := visit{p.origin().ID, p.Round, w.Number}
	_, late := d.seen[0][v]
	_, before := d.seen[1][v]
	if late || before {
		d.sendBack(now, x, p, w)
		return false
	}
	d.seen[0][v] = struct{}{}
	return true
}

// sendBack tells the origin of a probe that it has come to a call that another one has passed.
func (d *Detector) sendBack(now time.Duration, x *index, p *probe, w *Wait) {
	to := w.Call
	p = &probe{Round: p.Round, Path: p.Path, To: &to}
	if p.origin().Process == d.self {
		d.back(now, x, p)
		return
	}
	d.out.add(now, p.origin().Process, item{Back: p})
}

// back reads what has come of a probe of this process.
func (d *Detector) back(now time.Duration, x *index, p *probe) {
	origin := x.number[p.origin().Number]
	if origin == nil || p.origin().ID != origin.ID {
		return
	}
	r := d.begun[origin.Number]
	if r == nil || r.number != p.Round {
		return
	}
	r.graph.add(p)
	if !p.picky() {
		if len(r.open) < mostOpen {
			r.open = append(r.open, p)
		}
		r.open = slices.DeleteFunc(r.open, func(p *probe) bool {
			whole := r.graph.complete(p)
			if whole == nil {
				return false
			}
			r.plain = true
			var g graph
			g.add(whole)
			d.verify(now, x, r, &g, origin.ID)
			return true
		})
	}
	if !r.plain && r.graph.picky {
		d.verify(now, x, r, &r.graph, origin.ID)
	}
}

// mostOpen is how many ways that have come back are kept until a circle is known to which they belong.
const mostOpen = 100

// verify has all processes of a circle asked whether it was there all the time.
func (d *Detector) verify(now time.Duration, x *index, r *round, g *graph, origin ID) {
	circle, behind := g.circle(origin)
	if len(circle.Calls) == 0 {
		return
	}
	key := circle.key()
	if r.tried[key] {
		return
	}
	r.tried[key] = true
	if n := d.announced[origin.Number][key]; n >= tells && n%tellsEvery != 0 {
		d.announced[origin.Number][key]++
		return
	}
	d.checks++
	q := &question{circle: circle, began: now, open: map[string]bool{}}
	checks := g.checks(behind)
	for _, process := range slices.Sorted(maps.Keys(checks)) {
		c := &check{d.self, d.checks, checks[process]}
		if process == d.self {
			if !d.holds(now, x, c) {
				return
			}
			continue
		}
		q.open[process] = true
		d.out.add(now, process, item{Check: c})
	}
	if len(q.open) == 0 {
		d.announce(now, x, circle)
		return
	}
	d.asked[d.checks] = q
}

// holds reports whether the calls of this process wait as they did.
func (d *Detector) holds(now time.Duration, x *index, c *check) bool {
	var picky []*Wait
	var had [][]string
	for _, call := range c.Calls {
		w := x.number[call.Number]
		if w == nil || w.Key != call.Key {
			return false
		}
		for _, l := range call.Under {
			if !slices.Contains(w.Under, l) {
				return false
			}
		}
		if call.Any != nil {
			picky, had = append(picky, w), append(had, call.Any)
		}
	}
	if len(picky) > 0 {
		for i, has := range d.world.Holders(picky) {
			if !slices.Equal(owners(has), had[i]) {
				return false
			}
		}
	}
	for _, call := range c.Calls {
		d.sure[call.Number] = now
		d.world.Keep(call.Number)
	}
	return true
}

// answered reads the answer to a check. The last one decides.
func (d *Detector) answered(now time.Duration, x *index, v *verdict) {
	q := d.asked[v.Number]
	switch {
	case q == nil:
	case !v.Ok:
		delete(d.asked, v.Number)
	default:
		delete(q.open, v.From)
		if len(q.open) == 0 {
			delete(d.asked, v.Number)
			d.announce(now, x, q.circle)
		}
	}
}

// How often the processes of a circle hear of it that goes on: in the first rounds, since a message may be lost, and rarely
// after that.
const (
	tells      = 2
	tellsEvery = 16
)

// announce tells all processes of a circle. If the next round does not find it, announce repeats the message, since a message may be lost.
func (d *Detector) announce(now time.Duration, x *index, c Circle) {
	key := c.key()
	for _, call := range c.Calls {
		if call.Process != d.self {
			continue
		}
		if d.announced[call.Number] == nil {
			d.announced[call.Number] = map[string]int{}
		}
		d.announced[call.Number][key]++
	}
	d.tell(c, func(process string, it item) { d.out.add(now, process, it) })
	before := len(d.repeats)
	d.repeats = slices.DeleteFunc(d.repeats, func(r repeat) bool { return r.key == key })
	if len(d.repeats) == before {
		d.repeats = append(d.repeats, repeat{now + 3*d.interval/2, key, c})
	}
	d.deliver(now, x, c)
}

// tell sends a circle to its other processes.
func (d *Detector) tell(c Circle, send func(process string, it item)) {
	sent := map[string]bool{d.self: true}
	for _, call := range c.Calls {
		if !sent[call.Process] {
			sent[call.Process] = true
			send(call.Process, item{Found: &c})
		}
	}
}

// deliver tells the calls of this process that are in a circle. This includes a call that waits no more: it has been granted what it
// waited for since another one was ended. A call that still waits hears of it only if it was in the circle a moment ago: if the message is
// late, the circle may be gone, and the next round says so.
func (d *Detector) deliver(now time.Duration, x *index, c Circle) {
	for _, call := range c.Calls {
		if call.Process != d.self {
			continue
		}
		at, sure := d.sure[call.Number]
		if sure && (x.number[call.Number] == nil || now-at <= d.interval) {
			d.world.Found(call.Number, c)
		}
	}
}
