package lockrt

// A leaseList has the leases of a grant: one of most grants, which takes no memory besides.
type leaseList struct {
	first  *Lease // nil if there is none
	others *[]*Lease
}

// size returns the number of leases.
func (x *leaseList) size() int {
	switch {
	case x.first == nil:
		return 0
	case x.others == nil:
		return 1
	}
	return 1 + len(*x.others)
}

// only reports whether l is in the list alone.
func (x *leaseList) only(l *Lease) bool { return x.first == l && x.size() == 1 }

// add adds l at the end.
func (x *leaseList) add(l *Lease) {
	l.at = int32(x.size())
	if x.first == nil {
		x.first = l
		return
	}
	if x.others == nil {
		x.others = new([]*Lease)
	}
	*x.others = append(*x.others, l)
}

// remove removes l, in place of which the last lease comes.
func (x *leaseList) remove(l *Lease) {
	if x.size() == 1 {
		x.first = nil
		return
	}
	others, end := *x.others, len(*x.others)-1
	last := others[end]
	others[end] = nil
	*x.others = others[:end]
	if last != l {
		x.put(last, l.at)
	}
}

// put has l at the index at, in place of another lease.
func (x *leaseList) put(l *Lease, at int32) {
	l.at = at
	if at == 0 {
		x.first = l
	} else {
		(*x.others)[at-1] = l
	}
}

// all calls yield for each lease, until that returns false.
func (x *leaseList) all(yield func(l *Lease) bool) {
	if x.first == nil || !yield(x.first) || x.others == nil {
		return
	}
	for _, l := range *x.others {
		if !yield(l) {
			return
		}
	}
}
