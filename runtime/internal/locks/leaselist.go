package locks

// The leases of a grant are those of the present holder, one and one more for each reentry, or those of all readers. Most grants have
// one, which takes no memory besides.

// size returns the number of leases.
func (g *grant) size() int {
	if g.first == nil {
		return 0
	}
	return 1 + len(g.rare().others)
}

// only reports whether g has l and no other lease.
func (g *grant) only(l *Lease) bool { return g.first == l && g.size() == 1 }

// add adds l at the end.
func (g *grant) add(l *Lease) {
	l.at = int32(g.size())
	if g.first == nil {
		g.first = l
		return
	}
	g.more().others = append(g.more().others, l)
}

// remove removes l, in place of which the last lease comes.
func (g *grant) remove(l *Lease) {
	if g.size() == 1 {
		g.first = nil
		return
	}
	others, end := g.extra.others, len(g.extra.others)-1
	last := others[end]
	others[end] = nil
	g.extra.others = others[:end]
	switch {
	case last == l:
		return
	case l.at == 0:
		g.first = last
	default:
		others[l.at-1] = last
	}
	last.at = l.at
}

// leases calls yield for each lease, until that returns false.
func (g *grant) leases(yield func(l *Lease) bool) {
	if g.first == nil || !yield(g.first) {
		return
	}
	for _, l := range g.rare().others {
		if !yield(l) {
			return
		}
	}
}
