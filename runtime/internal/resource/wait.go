package resource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// patience is the least time for which a waiting call tolerates a Redis that does not answer.
const patience = 30 * time.Second

// A turn says whose turn it is to ask, as one call knows it.
type turn uint8

const (
	turnOfOthers turn = iota // another waiter asks, or none has to
	turnOfHead               // the waiter is the deputy of the head of the queue, which does not listen, and has it ask
	turnOwn                  // the waiter asks as soon as there is a reason to
	turnTaken                // the answer to its request is on its way
)

// own reports whether the waiter asks for itself.
func (t turn) own() bool { return t >= turnOwn }

// A reason is why a waiter is to ask. A greater one replaces a smaller one.
type reason uint8

const (
	reasonNone    reason = iota
	reasonSilence        // nothing was heard for long
	reasonNews           // something has happened
)

// reasonOf returns the reason that an event tells.
func reasonOf(ev engine.Event) reason {
	if ev.Recheck {
		return reasonSilence
	}
	return reasonNews
}

// A wait is the state of one call in the wait loop. The options of the call and the function that reports that it waits are arguments of the
// methods instead: what the state pointed to would be on the heap, since its methods hand on what it has.
type wait struct {
	c       *Client
	ctx     context.Context
	done    <-chan struct{} // of ctx
	q       Contest
	w       *Waiter
	length  time.Duration // of the wait, as [leases.Config] has it
	polling bool          // the waiter does not listen

	turn     turn
	reason   reason
	over     bool // the wait is over, and the last answer is awaited
	reported bool // it is reported that the call waits for others
	resent   int  // requests sent again at once, since an earlier one may have taken effect
	refusals int
	paused   monotonic.Time // until then the waiter pauses, if it polls
	saidNo   monotonic.Time // when Redis last refused
	down     engine.Outage

	deadline <-chan time.Time // of the wait
	limit    <-chan time.Time // of the wait for the last answer
	answered <-chan struct{}  // closed when Redis has answered another waiter of the contest
	closing  <-chan struct{}  // ends, or nil while the end of the client comes as an event
	ends     <-chan struct{}  // closed when the client ends; nil for a waiter to which that always comes as an event, see [user.Refuse]

	listener *hub.Listener
	queueKey string         // the key for whose wait queue the client listens, if it does
	leave    func()         // ends that, or nil
	timers   [2]*time.Timer // of deadline and limit, if there are any
}

// begin starts the wait of a waiter that has joined the contest, and reports whether it has what it wants.
//
//go:noinline
func (s *wait) begin(entry Entry, asked bool, waiting func()) bool {
	if _, line := s.q.(yielding); !line || s.length != leases.UntilDone || s.c.Refusal() != nil {
		s.ends = s.c.Closing
	}
	s.closing = s.ends
	if s.length > 0 {
		s.timers[0] = time.NewTimer(s.length)
		s.deadline = s.timers[0].C
	}
	if asked {
		s.turn = turnTaken
		return false
	}
	if s.joined(entry) {
		return true
	}
	if entry == ToWait && !s.w.Once() && s.w.Events.Empty() {
		s.waits(waiting)
		s.hear() // other processes may join the contest
		if _, ok := s.q.(queueing); ok && s.c.Refusal() == nil {
			s.closing = nil // such a waiter gets the end of the client as an event, see [user.Refuse]
		}
	}
	return false
}

// waitsForEvents reports whether an event is all that is awaited.
func (s *wait) waitsForEvents(cfg *leases.Config) bool {
	return s.closing == nil && s.done == nil && s.deadline == nil && s.limit == nil && s.answered == nil && cfg.Yields == nil
}

// end frees what the wait had.
//
//go:noinline
func (s *wait) end() {
	if s.leave != nil {
		s.leave()
	}
	s.c.suspects.End(s.w)
	if s.listener != nil {
		s.listener.Close()
	}
	for _, timer := range s.timers {
		if timer != nil {
			timer.Stop()
		}
	}
	s.c.alarms.Stop(s.w)
}

// joined goes on after the waiter has joined the contest, and reports whether it has what it wants.
func (s *wait) joined(entry Entry) bool {
	s.over = false
	switch entry {
	case Entered:
		return true
	case ToAsk:
		s.turn = turnOwn
		s.ask()
	case TurnedAway:
		s.over = true // only the answer to another waiter is still awaited
	}
	return false
}

// wantsToAsk reports whether the waiter has to ask, or the wait may have come to its end.
func (s *wait) wantsToAsk() bool {
	return s.over || s.reason != reasonNone && (s.turn == turnOwn || s.turn == turnOfHead)
}

// ready asks if the waiter has to, or looks whether the wait has come to its end, and has err.
//
//go:noinline
func (s *wait) ready() (over bool, err error) {
	if s.over && s.w.Events.Empty() {
		if err := s.outcome(); err == errEntered { //nolint:errorlint // this very one
			return true, nil
		} else if err != nil {
			return true, err
		}
		if s.over && s.limit == nil {
			patience := LastAnswer
			switch {
			case s.w.Quorum:
				patience = s.c.Settings.RedLockTimeout
			case s.w.Once():
				patience = s.c.Settings.OpTimeout
			}
			s.timers[1] = time.NewTimer(patience)
			s.limit = s.timers[1].C
		}
	}
	switch {
	case s.reason == reasonNone:
	case s.turn == turnOwn:
		s.reason, s.w.Recheck = reasonNone, s.reason == reasonSilence
		s.ask()
		s.w.Recheck = false
	case s.turn == turnOfHead:
		s.reason = reasonNone
		s.ask()
	}
	return false, nil
}

// ask sends a request, unless the start belongs to one of Redisson's waiters. A deputy has the head of the queue do so.
func (s *wait) ask() {
	if s.turn == turnOfHead {
		s.c.alarms.Stop(s.w)
		s.q.(shared).Remind(s.w) //nolint:forcetypeassert // a queue with a deputy is shared
		return
	}
	s.closing = s.ends
	if yields, ok := s.q.(yielding); ok && !s.over {
		if start, foreign := yields.StartFor(s.w); start > 0 {
			if s.listener == nil && !s.polling && foreign {
				s.listen() // one of Redisson's waiters may use the start sooner
			}
			s.c.alarms.Set(s.w, start)
			return
		}
	}
	s.turn = turnTaken
	s.c.alarms.Stop(s.w)
	s.q.Ask(s.w)
}

// listen begins to listen to the channel of Redisson.
func (s *wait) listen() {
	q, w := s.q, s.w // the listener would have s on the heap
	s.listener = s.c.Net.Listen(q.Channel(w), func(e hub.Event) {
		q.Hear(e.Payload) // nothing, when earlier messages may have been missed
		if e.Subscribed || !protocol.ForRedisson(e.Payload) {
			w.Poke()
		}
	})
}

// waits records that the call waits for others, and reports it, once, by waiting if that is not nil.
func (s *wait) waits(waiting func()) {
	s.c.mayWaitForEver(s.ctx, s.w, s.length)
	if waiting != nil && !s.reported {
		waiting()
		s.reported = true
	}
}

// hear begins to listen for messages to the wait queue, and reports whether the client gets them.
func (s *wait) hear() bool {
	if s.polling {
		return false
	}
	heard := s.c.Hear()
	if s.attend() {
		heard = heard && s.c.Attends(s.queueKey)
	}
	return heard
}

// attend begins to listen on the channel for waiters in the slot of the key, and reports whether there is one.
func (s *wait) attend() bool {
	in, ok := s.q.(queueing)
	if !ok || !s.c.Net.Sharded() {
		return false
	}
	if s.queueKey == "" {
		s.queueKey = in.queueKey()
		s.leave = s.c.attend(s.queueKey)
		s.w.Attends = true
	}
	return true
}

// after says in an error how long the call has waited.
func (s *wait) after() string {
	if s.w.Once() {
		return ""
	}
	return " after " + monotonic.Since(s.w.Call.Since).Round(time.Millisecond).String()
}

// outcome returns the error of a wait that is over, or errEntered. It returns nil as long as the last answer of Redis is not known, and has
// Redis asked if no request is under way.
func (s *wait) outcome() error {
	of, ok := s.q.(shared)
	var held bool
	var word engine.AnswerLog
	if ok {
		held, word = of.Last(s.w)
	}
	switch {
	case s.ctx.Err() != nil:
		return core.Ended(s.ctx)
	case held:
		return fmt.Errorf("%w%s", failure.ErrNotAcquired, s.after())
	case s.turn == turnTaken:
		return nil
	case s.down.Last != nil:
		return transport.Unavailable(s.after(), s.down.Last)
	case fresh(s.saidNo):
		return fmt.Errorf("%w%s", failure.ErrNotAcquired, s.after())
	}
	if ok && !s.turn.own() {
		switch {
		case word.Err == nil && fresh(word.Refused):
			return fmt.Errorf("%w%s", failure.ErrNotAcquired, s.after())
		case word.Err != nil && !core.Passing(word.Err):
			return core.Refused(word.Err)
		case word.Err != nil && !transport.Cut(word.Err) && !transport.CutWhileDialled(word.Err):
			return transport.Unavailable(s.after(), word.Err)
		case word.Asking > 0:
		case !s.w.Once():
			of.Remind(s.w)
		case s.joined(s.q.Join(s.w)):
			return errEntered
		case s.over:
			of.Remind(s.w)
		}
		s.answered = word.Answered
		return nil
	}
	s.turn = turnOwn
	s.ask()
	return nil
}

// handle takes the next event, and reports whether the wait is over, with err.
//
//go:noinline
func (s *wait) handle(cfg *leases.Config, waiting func()) (over bool, err error) {
	ev, ok := s.w.NextEvent()
	if !ok {
		return false, nil
	}
	switch ev.Kind {
	case engine.Reason:
		if s.c.Refusal() != nil {
			return true, failure.ErrClosed
		}
		s.closing = s.ends
		if s.reason = max(s.reason, reasonOf(ev)); !s.turn.own() && !s.w.Once() {
			s.waits(waiting)
			s.hear()
		}
	case engine.Given:
		return true, nil
	case engine.Broken:
		return true, ev.Err
	case engine.Suspected:
		s.c.suspect(s.ctx, s.q, s.w, s.length)
	case engine.Turn:
		s.turn = turnOwn
		s.ask()
	case engine.Behind:
		s.turn = turnOfOthers
		s.down, s.saidNo = engine.Outage{}, monotonic.Now()
		if s.w.Once() {
			return true, failure.ErrNotAcquired
		}
		s.waits(waiting)
		s.hear()
	case engine.Failed:
		err = s.failed(ev, cfg)
	case engine.Refused:
		err = s.refused(ev, cfg, waiting)
	}
	return err != nil, err
}

// failed goes on after a request without an answer. It returns an error if that ends the wait.
func (s *wait) failed(ev engine.Event, cfg *leases.Config) error {
	if s.turn == turnTaken {
		s.turn = turnOwn
	}
	switch {
	case s.ctx.Err() != nil && errors.Is(ev.Err, s.ctx.Err()): // tells nothing about Redis
	case !core.Passing(ev.Err):
		return core.Refused(ev.Err)
	case (s.w.Once() || s.over) && !ev.Final && s.resent < core.SendsAgain(ev.Err):
		s.resent++ // to learn the outcome of the request before
		s.ask()
	case s.w.Once() || s.over || s.down.Longer(max(cfg.TTL, patience)):
		return transport.Unavailable(s.after(), ev.Err)
	case s.down.Tries+1 == s.c.Settings.Retry.Limit():
		return transport.Unavailable(fmt.Sprintf(" in %d attempts", s.down.Tries+1), ev.Err)
	default:
		s.c.alarms.Set(s.w, s.down.Pause(s.c.Settings.Retry.Pause, ev.Err))
	}
	return nil
}

// refused goes on after Redis has refused. It returns an error if that ends the wait.
func (s *wait) refused(ev engine.Event, cfg *leases.Config, waiting func()) error {
	if s.turn = turnOwn; ev.Deputy {
		s.turn = turnOfHead
	}
	s.down, s.saidNo = engine.Outage{}, monotonic.Now()
	if s.w.Once() {
		return failure.ErrNotAcquired
	}
	if s.over {
		return nil
	}
	s.waits(waiting)
	if s.polling {
		if ev.InLine {
			s.attend() // a call that listens had the process stand in line, and may leave: then the hand-over would go unheard
		}
		return s.pause(cfg.Backoff)
	}
	heard := s.hear()
	if heard && !ev.InLine {
		s.ask() // to join the wait queue
		return nil
	}
	if ev.Foreign && s.listener == nil {
		if s.listen(); s.listener.Live() {
			s.ask() // an earlier release may have been missed
			return nil
		}
	}
	longest := engine.LookAgain
	if _, ok := s.q.(queueing); ok && !ev.NotFirst && !s.c.Net.TracksChanges() { // it is in a wait queue there
		longest = engine.LookAgainBlind
	}
	s.closing = nil // the end of the client comes as an event
	return s.c.park(s.q, s.w, engine.NextLook(longest, ev.TTL, heard && (!ev.Foreign || s.listener.Live())), s.waitsForEvents(cfg))
}

// pause has a refused waiter that polls ask again after its next pause. It returns an error after the last attempt. A request during the pause,
// for which another call is the reason, is no attempt, and the pause goes on.
func (s *wait) pause(b core.Backoff) error {
	left := monotonic.Until(s.paused)
	if left <= 0 {
		if s.refusals++; s.refusals == b.Limit() {
			return fmt.Errorf("%w in %d attempts", failure.ErrNotAcquired, s.refusals)
		}
		left = b.Pause(s.refusals)
		s.paused = monotonic.Now().Add(engine.Earliest(left))
	}
	s.c.alarms.Set(s.w, left)
	return nil
}

// endedByContext returns the error of a call whose context has ended.
//
//go:noinline
func (s *wait) endedByContext() error {
	return withAnswer(last(s.q, s.w, s.saidNo, &s.down), core.Ended(s.ctx))
}

// unanswered returns the error of a call that has waited in vain for its last answer.
//
//go:noinline
func (s *wait) unanswered() error {
	return transport.Unavailable(s.after(), core.FirstError(s.down.Last, transport.ErrNoAnswer))
}
