package runtime

import "sync"

// A redLine is where those of this process stand who want one red lock. Only the first of them asks the servers, until its
// lease is over: those of one process would be refused by each other, and by the servers they asked in vain.
type redLine struct {
	mu  sync.Mutex // guards the rest
	all map[string]*line
}

// join puts w at the end of the line for key and reports whether it is the first.
func (r *redLine) join(key string, w *waiter) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.all[key]
	if q == nil {
		if r.all == nil {
			r.all = map[string]*line{}
		}
		q = new(line)
		r.all[key] = q
	}
	q.push(w)
	return q.first == w
}

// leave takes w out of the line, if it stands there. If it was the first it is the turn of the next one.
func (r *redLine) leave(key string, w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.place.queued {
		return
	}
	q := r.all[key]
	first := q.first == w
	q.remove(w)
	switch {
	case q.first == nil:
		delete(r.all, key)
	case first:
		q.first.news <- news{kind: turn}
	}
}
