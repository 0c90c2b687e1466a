package transport

import "slices"

// keptRoom is for how many requests a queue keeps room when none is left. Thousands of calls that begin to wait together need more, once.
const keptRoom = 16 * mostBatched

// A place says which goroutine waits for the answer to a call.
type place int

const (
	ofSender place = iota // a sender
	ofCaller              // the caller that is alone, and sends it; it is a script under way of its kind, but no sender
	aside                 // no sender: the answer takes long
)

// Queues have the requests that wait, by kinds.
type queues struct {
	of      []queue
	next    int // the kind after the last one that a sender chose in its turn
	waiting int // requests in all of them
	adding  int // how many requests SubmitAll adds
}

// A queue has the requests for one script.
type queue struct {
	requests []Request
	whole    int    // the first so many go in one script, if it can have so many: a caller has put some of them into the queue at once
	scripts  int    // under way, or about to be
	flush    func() // sends the queue, as a value
}

func (q *queues) add(kind int, r Request) {
	of := &q.of[kind]
	of.requests = append(of.requests, r)
	q.waiting++
}

// added records that a caller has added n requests, and reports whether their queue has no others.
func (q *queues) added(kind, n int) (only bool) {
	of := &q.of[kind]
	if n > 1 {
		of.whole = len(of.requests)
	}
	return len(of.requests) == n
}

// pick returns the kind of the next script of a sender that is at work for one kind: with same, the same kind while its queue is not empty; else the
// kind of the next queue that is not empty. It counts one script of the old kind less, and one of the new kind more.
func (q *queues) pick(kind int, same bool) (next int, ok bool) {
	q.of[kind].scripts--
	for n := 0; !same || len(q.of[kind].requests) == 0; n++ {
		if n == len(q.of) {
			return 0, false
		}
		kind, same = q.next, true
		q.next = (kind + 1) % len(q.of)
	}
	q.of[kind].scripts++
	return kind, true
}

// first moves up to most requests of a queue to the end of some, or up to part unless the queue has more that go together.
func (q *queues) first(kind, most, part int, some []Request) []Request {
	of := &q.of[kind]
	n := min(len(of.requests), most, max(part, of.whole))
	if n == len(of.requests) && len(some) == 0 && cap(of.requests) <= 2*most { // usually it has no more: then the two change their rooms
		some, of.requests = of.requests, some
	} else {
		some = append(some, of.requests[:n]...)
		left := copy(of.requests, of.requests[n:])
		clear(of.requests[left:])
		of.requests = of.requests[:left]
	}
	of.whole = max(0, of.whole-n)
	q.waiting -= n
	return some
}

// shrink frees the room of queues that have had very many requests, if nothing waits or is under way.
func (q *queues) shrink() bool {
	if q.waiting > 0 || slices.ContainsFunc(q.of, func(of queue) bool { return of.scripts > 0 }) {
		return false
	}
	for i := range q.of {
		if of := &q.of[i]; cap(of.requests) > keptRoom {
			of.requests = nil
		}
	}
	return true
}
