package resource

import (
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// The leases of a grant are those of the present holder, one and one more for each reentry, or those of all readers. Most grants have
// one, which takes no memory besides.

// Size returns the number of leases.
func (g *Grant) Size() int {
	if g.First == nil {
		return 0
	}
	return 1 + len(g.Rare().others)
}

// only reports whether g has l and no other lease.
func (g *Grant) only(l *leases.Lease) bool { return g.First == l && g.Size() == 1 }

// add adds l at the end.
func (g *Grant) add(l *leases.Lease) {
	l.Core().At = int32(g.Size())
	if g.First == nil {
		g.First = l
		return
	}
	x := g.More() // of x itself, append and the cut in remove change the length alone, without a barrier of the garbage collector
	x.others = append(x.others, l)
}

// remove removes l, in place of which the last lease comes.
func (g *Grant) remove(l *leases.Lease) {
	if g.Size() == 1 {
		g.First = nil
		return
	}
	x := g.Extra
	others, end := x.others, len(x.others)-1
	last := others[end]
	others[end] = nil
	x.others = x.others[:end]
	switch {
	case last == l:
		return
	case l.Core().At == 0:
		g.First = last
	default:
		others[l.Core().At-1] = last
	}
	last.Core().At = l.Core().At
}

// Leases calls yield for each lease, until that returns false.
func (g *Grant) Leases(yield func(l *leases.Lease) bool) {
	if g.First == nil || !yield(g.First) {
		return
	}
	for _, l := range g.Rare().others {
		if !yield(l) {
			return
		}
	}
}
