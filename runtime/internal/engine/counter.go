package engine

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A Counter is this process's side of one key that counts: a semaphore, permits or a latch. Its callers queue here, first
// come, first served, and one request at a time asks Redis for all of them, so that small demands of the same process do not
// overtake a big one. When Redis refuses the head of the queue, the others wait behind it, until a message, a release of this
// process, or the time makes the head ask again, or the head leaves.
//
// A grant for a waiter that left is released. A request with an unknown outcome is sent again, unchanged, until the
// outcome is known: Redis stores the result under the number of the request. After a minute it may soon have forgotten the result: then the
// counter gives the request up, and asks anew.
type Counter[T Demanding] struct {
	Queue WaitQueue[T]
	Alike bool // all want the same: one answer serves all of them
	Most  int  // how many permits the waiters of one request want together, unless it is one waiter; 0 for any number

	Changes // its mu is that of the entry, and guards the rest, and Queue

	of      Counting[T]
	state   CounterState
	full    bool           // the head was refused
	creator *Waiter[T]     // the first waiter in the queue whose demand creates the semaphore; nil if none does
	width   int            // for how many waiters the next request asks
	batch   *CountBatch[T] // the request without an answer, unless the counter is idle
	answers Answers        // of Redis
}

// A CounterState is what became of the last request of a counter. docs/architecture.md has the transitions.
type CounterState uint8

const (
	CounterIdle    CounterState = iota // it is answered, has done nothing or is given up, or there was none
	CounterAsking                      // it is under way
	CounterUnknown                     // it may have taken effect without our knowing: the next request is the same
)

var counterStates = [...]string{"idle", "asking", "unknown"}

// String returns the name of the state in docs/architecture.md.
func (s CounterState) String() string { return counterStates[s] }

// Demanding is the constraint of waiters at a counter.
type Demanding interface{ Demand() *Demand }

// A Demand is what a waiter wants of a counter.
type Demand struct {
	N      int    // number of permits
	Create int    // permits to create the semaphore with, or 0
	IDs    string // the ids of the permits
	Seen   bool   // Redis has refused it, or one before it
}

// A Counting is the thing that a counter counts.
type Counting[T Demanding] interface {
	// Send sends b, with its number and the oldest one that is not settled, for waiters, or for none: then what b has not taken yet it
	// never takes.
	Send(b *CountBatch[T], number, oldest uint64, wanted bool) CountAnswer
	// Grant gives w its permits, which it has in Redis since sent, until ends at the latest, and reports false if their lease
	// is over: then they are released, and w asks anew. The caller holds the counter's lock.
	Grant(w *Waiter[T], sent, ends time.Time) bool
	// Undo releases granted permits of w, which demanded d.
	Undo(w *Waiter[T], d Demand)
}

// A CountBatch is one request for several waiters. Waiters that leave meanwhile stay in it: a repeated request must
// be the same.
type CountBatch[T Demanding] struct {
	Parts  []CountPart[T]
	Create int       // permits to create the semaphore with, as the first waiter in the queue that creates it says; or 0
	Sent   time.Time // for the first time: a repetition does not prolong the leases of its permits
	Again  bool      // it may have taken effect without our knowing

	number uint64
	last   bool   // it is sent once more, because the client is closed
	down   Outage // since its outcome is unknown
}

// A CountPart is a waiter in a batch, and what it demanded by then.
type CountPart[T Demanding] struct {
	Waiter *Waiter[T]
	Demand Demand
}

// A CountAnswer is the answer to a batch. The first Granted waiters have theirs; Redis refuses the others, which ask again after
// TTL.
type CountAnswer struct {
	Granted int
	TTL     time.Duration
	Ends    time.Time // when the key ends, and all that is granted with it; zero for never
	Deleted error     // the granted waiters that were refused before fail with it; or nil
	Err     error     // there is no answer
}

const (
	// MostAtOnce is the largest number of waiters of one request. A request serves one waiter more than the last
	// refused request granted, twice as many after one that was granted to all, and as many as a message says that
	// there are permits.
	MostAtOnce = 64
	// KeepResults is how long Redis stores the result of a request.
	KeepResults = 2 * time.Minute
	// MostLate is for how long a request may be late.
	MostLate   = KeepResults / 2
	insistence = KeepResults - MostLate // so long the client repeats a request
)

// Init prepares a counter of host under the lock mu.
func (ct *Counter[T]) Init(of Counting[T], host CountHost, mu *sync.Mutex) {
	ct.of, ct.width = of, MostAtOnce
	ct.Changes = Changes{host: host, mu: mu, wake: ct.wake}
}

func (ct *Counter[T]) to(next CounterState) {
	trace.Moves("counter", ct.state, next)
	ct.state = next
}

// Widen has the next request ask for n waiters: so many permits there are, as far as is known.
func (ct *Counter[T]) Widen(n int) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.width = max(ct.width, min(n, MostAtOnce))
}

// Join adds w to the end of the queue. A waiter that tries once is not put behind one that waits, and asks if all want the same: the last
// refusal is older than the try. The first waiter that creates the semaphore asks, also behind a head that was refused: there may be no
// semaphore. The deputy of a head that polls has it ask, and gets the answer too.
func (ct *Counter[T]) Join(w *Waiter[T]) Entry {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	creates := ct.creator == nil && w.For.Demand().Create > 0
	ct.full = ct.full && !creates && !(ct.Alike && w.Once())
	if ct.full && w.Once() {
		return TurnedAway
	}
	ct.Queue.Push(w)
	if creates {
		ct.creator = w
	}
	w.For.Demand().Seen = ct.full
	if ct.full {
		if ct.Queue.IsDeputy(w) {
			ct.wake()
		}
		return ToWait
	}
	return ToAsk
}

// Last returns the last answer of Redis.
func (ct *Counter[T]) Last() AnswerLog {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return ct.answers.Look()
}

// Settled reports whether nothing waits, and no outcome is unknown. Tests use it.
func (ct *Counter[T]) Settled() bool {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return ct.state == CounterIdle && len(ct.numbers) == 0 && ct.Queue.Empty() && !ct.full
}

// Ask sends the demand of w, with the next request if one is under way.
func (ct *Counter[T]) Ask(w *Waiter[T]) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if !w.Place.Queued() {
		return // it got what it wants a moment ago
	}
	w.Place = PlaceAsking
	ct.send()
}

// Wake makes the head ask, since this process released something.
func (ct *Counter[T]) Wake() {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.wake()
}

// wake is Wake. The caller holds ct.mu.
func (ct *Counter[T]) wake() {
	if w := ct.Queue.First; w != nil {
		w.Poke()
	}
}

// remove takes w out of the queue. If w is the first one that creates the semaphore, the next one is behind it: so each waiter is looked at once.
func (ct *Counter[T]) remove(w *Waiter[T]) {
	if ct.creator == w {
		next := w.After
		for next != nil && next.For.Demand().Create == 0 {
			next = next.After
		}
		ct.creator = next
	}
	ct.Queue.Remove(w)
}

// Leave removes w from the queue, and releases what it was granted after all.
func (ct *Counter[T]) Leave(w *Waiter[T]) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if w.Place == PlaceGranted {
		w.Place = PlaceNone
		d := *w.For.Demand()
		ct.host.Spawn(func() { ct.of.Undo(w, d) })
		return
	}
	if !w.Place.Queued() {
		return
	}
	first, deputy := ct.Queue.First == w, ct.Queue.IsDeputy(w)
	ct.remove(w)
	if deputy {
		ct.wake() // the answer finds the next one
	}
	switch {
	case ct.state == CounterAsking: // the answer continues the queue
	case !ct.Queue.Empty():
		if first {
			ct.resume()
		}
	default:
		ct.full = false
		if ct.state == CounterUnknown {
			ct.settleLater(ct.batch, nil, 0)
		}
	}
}

// notify answers w, if it has asked.
func (ct *Counter[T]) notify(w *Waiter[T], ev Event) {
	if w.Place == PlaceAsking {
		w.Place = PlaceLeading
		w.Notify(ev)
	}
}

// resume asks for the waiters, or makes the head do so.
func (ct *Counter[T]) resume() {
	for w := ct.Queue.First; w != nil; w = w.After {
		if w.Place == PlaceAsking {
			ct.send()
			return
		}
	}
	if w := ct.Queue.First; w != nil && w.Place.Leading() {
		w.Poke()
	}
	ct.lead()
}

// lead gives the head the turn to ask, if it does not have it. Whenever no request is under way,
// the head has the turn.
func (ct *Counter[T]) lead() {
	if w := ct.Queue.First; w != nil && !w.Place.Leading() {
		w.Place = PlaceLeading
		w.Notify(Event{Kind: Turn})
	}
}

// send sends the request with an unknown outcome again, or a new one for the waiters, unless one is
// under way.
func (ct *Counter[T]) send() {
	if b := ct.batch; ct.state == CounterUnknown && b.down.Longer(insistence) {
		ct.end(b)
		ct.host.Abandoned(true, b.down.Last)
	}
	switch {
	case ct.state == CounterAsking, ct.state == CounterIdle && ct.Queue.Empty():
		return
	case ct.state == CounterIdle:
		most := ct.width
		if ct.Alike {
			most = math.MaxInt
		}
		n := ct.Queue.LengthTo(most)
		ct.batch = &CountBatch[T]{number: ct.enroll(), Parts: make([]CountPart[T], 0, n), Sent: time.Now()} // the trust counts from before the request
		if ct.creator != nil {
			ct.batch.Create = ct.creator.For.Demand().Create
		}
		sum := 0
		for w := ct.Queue.First; len(ct.batch.Parts) < n; w = w.After {
			d := *w.For.Demand()
			if sum += d.N; ct.Most > 0 && sum > ct.Most && len(ct.batch.Parts) > 0 {
				break
			}
			ct.batch.Parts = append(ct.batch.Parts, CountPart[T]{w, d})
		}
	}
	b := ct.batch
	wanted := slices.ContainsFunc(b.Parts, func(p CountPart[T]) bool { return p.Waiter.Place.Queued() })
	ct.to(CounterAsking)
	ct.answers.Asks()
	oldest := ct.numbers[0]
	ct.host.Spawn(func() {
		for _, p := range ct.settle(b, ct.of.Send(b, b.number, oldest, wanted)) {
			ct.of.Undo(p.Waiter, p.Demand)
		}
	})
}

// settle handles the answer to b, and returns the grants for waiters that do not want them any
// more.
func (ct *Counter[T]) settle(b *CountBatch[T], a CountAnswer) (vain []CountPart[T]) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.answers.Says(a.Err == nil && a.Granted < len(b.Parts), a.Err)
	if a.Err != nil {
		ct.failed(b, a.Err)
		return nil
	}
	ct.end(b)
	ct.width = a.Granted + 1
	if a.Granted == len(b.Parts) {
		ct.width = min(2*a.Granted, MostAtOnce)
	}
	for _, p := range b.Parts[:a.Granted] {
		w := p.Waiter
		switch {
		case !w.Place.Queued() || !ct.host.Granting():
			vain = append(vain, p)
		case !ct.of.Grant(w, b.Sent, a.Ends):
			vain = append(vain, p)
			ct.notify(w, Event{Kind: Failed, Err: ErrLate})
		case a.Deleted != nil && w.For.Demand().Seen:
			ct.remove(w)
			w.Notify(Event{Kind: Failed, Err: a.Deleted})
		default:
			ct.remove(w)
			w.Place = PlaceGranted
			w.Notify(Event{Kind: Given})
		}
	}
	head := ct.Queue.First
	created := b.Create > 0 || ct.creator == nil // else the next request creates the semaphore
	if head != nil && a.Granted < len(b.Parts) && b.Parts[a.Granted].Waiter == head && created {
		ct.refuse(b, head, a.TTL)
		return vain
	}
	ct.full = false
	ct.resume()
	return vain
}

// refuse lets the head and its deputy know that the head has to wait, and the others that they wait behind it. A waiter that
// tries once makes room for them instead. One that wants the same as the head and has joined since b was sent asks anew.
func (ct *Counter[T]) refuse(b *CountBatch[T], head *Waiter[T], ttl time.Duration) {
	head.For.Demand().Seen = true
	refusal := Event{Kind: Refused, TTL: ttl, Foreign: true, InLine: true}
	if head.Once() || head.Place != PlaceLeading { // or it is about to ask by itself
		head.Place = PlaceLeading
		head.Notify(refusal)
	}
	if head.Once() { // and will not ask again
		ct.remove(head)
		ct.full = false
		ct.resume()
		return
	}
	ct.full = true
	ct.Queue.deputize(head, refusal)
	for w := head.After; w != nil; w = w.After {
		switch {
		case w.Place == PlaceAsking && ct.Alike && w.Once() && !b.has(w):
			ct.full = false
			continue
		case w.Place == PlaceAsking:
			w.Place = PlaceQueued
			w.Notify(Event{Kind: Behind})
		}
		w.For.Demand().Seen = true
	}
	if !ct.full {
		ct.send()
	}
}

// has reports whether b asks for w.
func (b *CountBatch[T]) has(w *Waiter[T]) bool {
	return slices.ContainsFunc(b.Parts, func(p CountPart[T]) bool { return p.Waiter == w })
}

// failed lets the waiters of b know that there was no answer. If the outcome is unknown and they have
// gone, settleLater finds it out.
func (ct *Counter[T]) failed(b *CountBatch[T], err error) {
	unknown, _ := ct.host.Fate(err)
	b.Again = b.Again || unknown
	pause := b.down.Pause(ct.host.Backoff, err)
	ct.Queue.Each(func(w *Waiter[T]) { ct.notify(w, Event{Kind: Failed, Err: err}) })
	if b.Again {
		ct.to(CounterUnknown)
	} else {
		ct.end(b)
	}
	if !ct.Queue.Empty() {
		ct.lead() // the waiter that asked may have left, or may be about to
		return
	}
	ct.full = false // the refused waiter has left, and the next to come asks
	if b.Again {
		ct.settleLater(b, err, pause)
	}
}

// settleLater sends b again after a pause, although no waiter waits for the answer, unless it is too late for that.
func (ct *Counter[T]) settleLater(b *CountBatch[T], err error, pause time.Duration) {
	again := !b.down.Longer(insistence)
	if err != nil && again {
		_, again = ct.host.Fate(err)
	}
	ct.host.Spawn(func() {
		closed := again && !ct.host.Pause(pause)
		ct.mu.Lock()
		defer ct.mu.Unlock()
		if closed {
			again, b.last = !b.last, true
		}
		switch {
		case ct.batch != b || ct.state == CounterAsking:
		case again:
			ct.send()
		default:
			ct.end(b)
			ct.host.Abandoned(true, err)
			ct.resume()
		}
	})
}

// end ends b, whose outcome is known, or given up.
func (ct *Counter[T]) end(b *CountBatch[T]) {
	ct.batch = nil
	ct.to(CounterIdle)
	ct.settled(b.number)
}
