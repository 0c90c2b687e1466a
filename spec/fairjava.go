package spec

import "slices"

// The scripts of Redisson's fair lock, as far as a FairMutex meets them. They know neither notes nor the last grantee, and leave them.

// javaLeaves takes an owner out of the queue.
func (r *fairRun) javaLeaves(owner string) {
	r.Queue = slices.DeleteFunc(r.Queue, func(o string) bool { return o == owner })
	delete(r.Until, owner)
}

// javaAsk is a request for the lock by a thread. A place that it has already does not last longer.
func (r *fairRun) javaAsk(p FairPlace, queued bool) (granted bool) {
	head := r.evict(r.javaLeaves)
	_, stands := r.Until[p.Owner]
	switch {
	case r.Owner == "" && (head == "" || head == p.Owner):
		r.javaLeaves(p.Owner)
		for o := range r.Until {
			r.Until[o] -= p.Wait
		}
		r.Owner = p.Owner
		return true
	case r.Owner == p.Owner:
		return true
	case !queued, stands:
		return false
	}
	last := r.now - 2 // the server answers -2 for the time to live of a free lock
	if r.Owner != "" {
		last = r.now + r.left.Milliseconds()
	}
	if n := len(r.Queue); n > 0 {
		if until, has := r.Until[r.Queue[n-1]]; has {
			last = until
		}
	}
	r.Queue, r.Until[p.Owner] = append(r.Queue, p.Owner), last+p.Wait
	return false
}

// javaRelease is the end of a hold. keeps says that the thread has the lock more than once.
func (r *fairRun) javaRelease(p FairPlace, keeps bool) {
	head := r.evict(r.javaLeaves)
	switch {
	case r.Owner == p.Owner && !keeps:
		r.Owner = ""
	case r.Owner != "":
		return
	}
	if head != "" {
		r.calls = append(r.calls, head)
	}
}

// javaLeave has a thread leave the queue that has waited for long enough. The next waiter is not told, even if the lock is free.
func (r *fairRun) javaLeave(p FairPlace) {
	if i := slices.Index(r.Queue, p.Owner); i >= 0 {
		for _, o := range r.Queue[i+1:] {
			if until, has := r.Until[o]; has {
				r.Until[o] = until - p.Wait
			}
		}
	}
	r.javaLeaves(p.Owner)
}
