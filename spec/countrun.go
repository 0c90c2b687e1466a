package spec

import (
	"fmt"
	"maps"
	"slices"
)

// A countRun is a script at work.
type countRun struct {
	Count
	now       int64
	published []string
}

// do returns the reply to e, and whether its result is kept; nil if there is no such action.
func (r *countRun) do(e CountSaid) (reply []int64, noted bool) {
	switch e.Action {
	case "Take":
		n := r.take(e.Wants, e.Make)
		return []int64{n}, n > 0 || e.Request.Again
	case "Give":
		return []int64{r.give(e.Give, e.Only, e.Had)}, true
	case "Acquire":
		r.create(e.Wants, e.Make)
		r.reclaim(e.Make == 0)
		n := r.take(e.Wants, e.Make)
		return []int64{n, r.next()}, n > 0 || e.Request.Again
	case "Release":
		return []int64{r.release(e.Wants, e.Only, e.Leave)}, true
	case "Renew":
		return []int64{r.renew(e.Wants)}, false
	case "Lease":
		return []int64{r.lease(e.Wants)}, false
	case "Total":
		return []int64{r.total(e.Make)}, true
	case "Create":
		if r.Is {
			return []int64{0}, true
		}
		r.add(e.Make - int64(len(r.Taken)))
		r.reclaim(false)
		return []int64{1}, true
	case "Drain":
		n := max(r.N, 0)
		r.N -= n
		return []int64{n}, true
	case "Look":
		r.reclaim(false)
		taken := int64(0)
		for id := range r.Taken {
			if r.lives(id) {
				taken++
			}
		}
		left := e.Make - taken
		switch {
		case r.Is:
			left = r.N
		case e.Make == 0:
			left = 0
		}
		return []int64{left, taken}, false
	case "Start":
		if r.Is {
			return []int64{0}, true
		}
		r.Is, r.N = true, e.Make
		r.published = append(r.published, "1")
		return []int64{1}, true
	case "Down":
		return []int64{r.down()}, true
	case "Read":
		return []int64{r.N}, false
	case "Delete":
		if !r.Is {
			return []int64{0}, true
		}
		r.Is, r.N = false, 0
		r.published = append(r.published, "1")
		return []int64{1}, true
	}
	return nil, false
}

// tell says how many permits are left, if there are some.
func (r *countRun) tell() {
	if r.N > 0 {
		r.published = append(r.published, fmt.Sprint(r.N))
	}
}

// add makes permits available.
func (r *countRun) add(n int64) {
	r.Is, r.N = true, r.N+n
	r.tell()
}

// lives reports whether a permit is taken, and has not expired.
func (r *countRun) lives(id string) bool { return r.Taken[id] > r.now }

// create makes so many permits in all, if there is no semaphore and some waiter wants any.
func (r *countRun) create(wants []Want, all int64) {
	if !r.Is && all != 0 && len(wants) > 0 {
		r.add(all - int64(len(r.Taken)))
	}
}

// reclaim makes those available that have expired, if there is a semaphore, or creates says that they make one.
func (r *countRun) reclaim(creates bool) {
	if !r.Is && !creates {
		return
	}
	n := len(r.Taken)
	maps.DeleteFunc(r.Taken, func(_ string, over int64) bool { return over <= r.now })
	if n -= len(r.Taken); n > 0 {
		r.add(int64(n))
	}
}

// take returns how many of the waiters have what they want: the first ones, for whom there is enough.
func (r *countRun) take(wants []Want, make_ int64) (granted int64) {
	r.create(wants, make_)
	for _, w := range wants {
		n := w.N + int64(len(w.IDs))
		if !r.Is || n > r.N {
			break
		}
		r.N -= n
		granted++
		for _, id := range w.IDs {
			if r.Taken == nil {
				r.Taken = map[string]int64{}
			}
			r.Taken[id] = r.now + w.TTL
		}
	}
	return granted
}

// next returns when the next permit expires, in ms from now, or -1.
func (r *countRun) next() int64 {
	if len(r.Taken) == 0 {
		return -1
	}
	return r.lasts(slices.Min(slices.Collect(maps.Values(r.Taken))))
}

// lasts returns how long it is until a time, in ms, or -1 if that never comes.
func (r *countRun) lasts(over int64) int64 {
	if over >= never {
		return -1
	}
	return over - r.now
}

func (r *countRun) give(n int64, only, had bool) int64 {
	if !r.Is && only {
		if n > 0 {
			r.published = append(r.published, fmt.Sprint(n)) // to waiters that may create it
		}
		return 0
	}
	was := r.Is
	r.add(n)
	if had && !was {
		return 0
	}
	return 1
}

// lease returns how long a permit lasts after it was set to that, if it was.
func (r *countRun) lease(wants []Want) int64 {
	r.reclaim(false)
	if len(wants) != 1 || len(wants[0].IDs) != 1 {
		return 0 // which no script replies
	}
	id, ttl := wants[0].IDs[0], wants[0].TTL
	if !r.lives(id) {
		return -2
	}
	switch ttl {
	case 0:
	case Endless:
		r.Taken[id] = never
	default:
		r.Taken[id] = r.now + ttl
	}
	return r.lasts(r.Taken[id])
}

// total makes so many permits in all, taken or not, and returns how many are free.
func (r *countRun) total(n int64) int64 {
	r.reclaim(true)
	if left := n - int64(len(r.Taken)); !r.Is || r.N != left {
		r.Is, r.N = true, left
		r.tell()
	}
	return max(r.N, 0)
}

// release returns how many of the permits had not expired.
func (r *countRun) release(wants []Want, all, leave bool) (valid int64) {
	var ids []string
	for _, w := range wants {
		ids = append(ids, w.IDs...)
	}
	if all && slices.ContainsFunc(ids, func(id string) bool { return !r.lives(id) }) {
		return 0
	}
	removed := int64(0)
	for _, id := range ids {
		if r.lives(id) {
			valid++
		}
		if _, has := r.Taken[id]; has {
			removed++
			delete(r.Taken, id)
		}
	}
	switch {
	case removed == 0:
	case leave && !r.Is:
		r.published = append(r.published, fmt.Sprint(removed)) // to waiters that may create it
	default:
		r.add(removed)
	}
	return valid
}

// renew prolongs permits if all of them are there.
func (r *countRun) renew(wants []Want) int64 {
	r.reclaim(false)
	for _, w := range wants {
		for _, id := range w.IDs {
			if !r.lives(id) {
				return 0
			}
		}
	}
	for _, w := range wants {
		for _, id := range w.IDs {
			r.Taken[id] = max(r.Taken[id], r.now+w.TTL)
		}
	}
	return 1
}

// down counts a latch down, and returns the count.
func (r *countRun) down() int64 {
	switch {
	case !r.Is:
		return 0
	case r.N > 1:
		r.N--
		return r.N
	}
	r.Is, r.N = false, 0
	r.published = append(r.published, "0")
	return 0
}
