package lockweb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lockgen/lockgen/internal/survey"
)

// The sizes of the graph.
const (
	mostBoxes           = 40
	boxWidth, boxHeight = 204, 46
	gapX, gapY          = 110, 26
	margin              = 12
	mostLabel           = 27 // characters in a box
	mostEdgeLabel       = 15
)

// A drawing shows the waiters and the holders that they wait for, as boxes and arrows.
type drawing struct {
	Width, Height int
	Boxes         []box
	Arrows        []arrow
	Texts         []string // the arrows as sentences
	More          int      // boxes that do not fit
}

// A box is a call, or several calls that wait for the same lock and that no call waits for.
type box struct {
	X, Y, TextX, First, Second int
	Width, Height              int
	Title, Sub                 string
	Stuck                      bool
}

// An arrow goes from a box that waits to one that holds.
type arrow struct {
	Path   string
	Label  string
	LabelX int
	LabelY int
	Stuck  bool
}

// An actor is one call: it owns all leases under which it waits.
type actor struct {
	id         string
	title, sub string
	calls      int
	stuck      bool
	column     int
	row        int
	waitsFor   []*edge
}

type edge struct {
	to    *actor
	key   string
	stuck bool
}

// actors groups the leases and waits of each call.
type actors struct {
	all  map[string]*actor
	same map[string]string // from the owner of a lease to that of another lease of the same call
}

func (a *actors) root(owner string) string {
	for a.same[owner] != "" {
		owner = a.same[owner]
	}
	return owner
}

// of returns the actor that has a lease.
func (a *actors) of(owner string, who survey.Who, name string) *actor {
	id := a.root(owner)
	one := a.all[id]
	if one == nil {
		one = &actor{id: id, title: cmp.Or(name, who.String()), sub: who.String()}
		a.all[id] = one
	}
	return one
}

// draw draws the waiters, and the holders that they wait for.
func draw(world *survey.World, circles []survey.Circle) drawing {
	a := &actors{all: map[string]*actor{}, same: map[string]string{}}
	stuck := map[string]bool{} // by the key and the owner under which a call waits
	for _, c := range circles {
		for _, l := range c {
			for _, u := range l.Waiter.Under {
				stuck[l.Key+"\x00"+u.Owner] = true
			}
		}
	}
	locks := world.Sorted("")
	waits := map[string]bool{} // owners under whose leases a call waits
	for _, l := range locks {
		for _, w := range l.Waiters {
			for i, u := range w.Under {
				waits[u.Owner] = true
				if x, y := a.root(w.Under[0].Owner), a.root(w.Under[i].Owner); x != y {
					a.same[y] = x
				}
			}
		}
	}
	for _, l := range locks { // the name of a holder is that of its first lock
		for _, h := range l.Holders {
			if waits[h.Owner] || len(l.Waiters) > 0 && len(l.Holders) <= mostBoxes {
				a.of(h.Owner, h.Who, h.Name)
			}
		}
	}
	for _, l := range locks {
		a.add(l, stuck, waits)
	}
	return a.place()
}

// placeOf names a lock among those of all servers.
func placeOf(l *survey.Lock) string { return l.Key + "\x00" + l.Site }

// holders returns the holders of a lock. If there are more than a drawing has boxes, those that do not wait themselves
// are one box: each waiter waits for each holder.
func (a *actors) holders(l *survey.Lock, waits map[string]bool) (all []*actor) {
	var others *actor
	for _, h := range l.Holders {
		if len(l.Holders) > mostBoxes && (!waits[h.Owner] || len(all) >= mostBoxes) {
			if others == nil {
				others = &actor{id: "others " + placeOf(l), sub: l.Kind}
				a.all[others.id] = others
			}
			others.calls++
			continue
		}
		if one := a.of(h.Owner, h.Who, h.Name); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	if others != nil {
		others.title = fmt.Sprintf("%d holders", others.calls)
		all = append(all, others)
	}
	return all
}

// add adds the waiters of a lock.
func (a *actors) add(l *survey.Lock, stuck, waits map[string]bool) {
	if len(l.Waiters) == 0 {
		return
	}
	holders := a.holders(l, waits)
	if len(holders) == 0 {
		nobody := "nobody " + placeOf(l)
		a.all[nobody] = &actor{id: nobody, title: "nobody is known to hold it", sub: l.Kind}
		holders = []*actor{a.all[nobody]}
	}
	var crowd *actor // the waiters without a lease
	for _, w := range l.Waiters {
		var one *actor
		isStuck := false
		if len(w.Under) > 0 {
			one = a.of(w.Under[0].Owner, w.Who, w.Name)
			isStuck = stuck[l.Key+"\x00"+w.Under[0].Owner]
		} else {
			if crowd == nil {
				crowd = &actor{id: "crowd " + placeOf(l), title: cmp.Or(w.Name, w.String()), sub: w.String()}
				a.all[crowd.id] = crowd
			}
			one = crowd
			crowd.calls++
		}
		one.stuck = one.stuck || isStuck
		for _, h := range holders {
			i := slices.IndexFunc(one.waitsFor, func(e *edge) bool { return e.to == h && e.key == l.Key })
			if i < 0 {
				one.waitsFor = append(one.waitsFor, &edge{h, l.Key, isStuck})
			} else if isStuck {
				one.waitsFor[i].stuck = true
			}
		}
	}
	if crowd != nil && crowd.calls > 1 {
		crowd.title, crowd.sub = fmt.Sprintf("%d calls", crowd.calls), "wait under no other lock"
	}
}

// place puts the actors that do not wait to the left, and each other one to the right of the actors that it waits for,
// unless they form a circle.
func (a *actors) place() (d drawing) {
	ids := slices.Sorted(maps.Keys(a.all))
	waitedFor := map[*actor][]*actor{}
	for _, id := range ids {
		for _, e := range a.all[id].waitsFor {
			waitedFor[e.to] = append(waitedFor[e.to], a.all[id])
		}
	}
	placed := map[*actor]bool{}
	var rows []int // how many boxes of one group each column has
	top, columns := 0, 0
	put := func(one *actor, column int) {
		placed[one] = true
		for len(rows) <= column {
			rows = append(rows, 0)
		}
		one.column, one.row = column, top+rows[column]
		rows[column]++
	}
	var order []*actor
	spread := func(from *actor) {
		rows = nil
		put(from, 0)
		for queue := []*actor{from}; len(queue) > 0; queue = queue[1:] {
			order = append(order, queue[0])
			for _, one := range waitedFor[queue[0]] {
				if !placed[one] && len(placed) < mostBoxes {
					put(one, queue[0].column+1)
					queue = append(queue, one)
				}
			}
		}
		top, columns = top+slices.Max(rows), max(columns, len(rows))
	}
	for _, circular := range []bool{false, true} {
		for _, id := range ids {
			one := a.all[id]
			if placed[one] || !circular && len(one.waitsFor) > 0 || len(one.waitsFor)+len(waitedFor[one]) == 0 {
				continue
			}
			if len(placed) < mostBoxes {
				spread(one)
			}
		}
	}
	involved := 0
	for _, id := range ids {
		if one := a.all[id]; len(one.waitsFor)+len(waitedFor[one]) > 0 {
			involved++
		}
	}
	d.More = involved - len(order)
	d.Width, d.Height = 2*margin+columns*(boxWidth+gapX)-gapX, 2*margin+top*(boxHeight+gapY)+gapY
	for _, one := range order {
		b := one.box()
		d.Boxes = append(d.Boxes, b)
		for _, e := range one.waitsFor {
			if !placed[e.to] {
				continue
			}
			d.Arrows = append(d.Arrows, arrowBetween(one, e))
			who := cut(one.title, mostKeyRunes)
			d.Texts = append(d.Texts, fmt.Sprintf("%s waits for %s, which %s has", who, textOf(e.key).Short, cut(e.to.title, mostKeyRunes)))
		}
	}
	return d
}

func (one *actor) box() box {
	x, y := margin+one.column*(boxWidth+gapX), margin+gapY+one.row*(boxHeight+gapY)
	return box{
		X: x, Y: y, Width: boxWidth, Height: boxHeight, TextX: x + 10, First: y + 19, Second: y + 36,
		Title: cut(one.title, mostLabel), Sub: cut(one.sub, mostLabel+4), Stuck: one.stuck,
	}
}

// arrowBetween draws a straight arrow to a box at the left, and one around all other boxes.
func arrowBetween(one *actor, e *edge) arrow {
	from, to := one.box(), e.to.box()
	r := arrow{Label: cut(survey.Quoted(e.key), mostEdgeLabel), Stuck: e.stuck}
	y1, y2 := from.Y+boxHeight/2, to.Y+boxHeight/2
	if one.column > e.to.column {
		x1, x2 := from.X, to.X+boxWidth+6
		middle := (x1 + x2) / 2
		r.Path = fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2)
		r.LabelX, r.LabelY = from.X-gapX/2, y1-6
		if one.column == e.to.column+1 {
			r.LabelY = (y1+y2)/2 - 6
		}
		return r
	}
	x1, x2 := from.X+boxWidth/2, to.X+boxWidth/2
	over := min(from.Y, to.Y) - gapY
	r.Path = fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, from.Y, x1, over, x2, over, x2, to.Y-6)
	r.LabelX, r.LabelY = (x1+x2)/2, over+gapY/2
	return r
}

// cut returns printable text of at most this many characters.
func cut(s string, most int) string {
	if runes := []rune(survey.Clean(s)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	} else {
		return string(runes)
	}
}
