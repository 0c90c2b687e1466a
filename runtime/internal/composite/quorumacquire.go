package composite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/quorum"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A quorumAcquire is the contest of one call for a RedLock: the call competes with others on the servers.
type quorumAcquire struct {
	m     *RedLock
	ctx   context.Context
	opts  []leases.Option
	cfg   leases.Config
	whole *leases.Lease
	w     *resource.Waiter // of the call

	inLine   bool         // it waits in the queue of this process
	queueKey string       // names that queue; calls that poll have one of their own, since its first one does not hear of releases
	began    atomic.Int64 // when the servers granted its parts, perhaps to another call here; monotonic

	rounds quorum.Contest[*leases.Lease]

	mu        sync.Mutex // guards the rest
	left      bool       // the call is over
	listeners []*hub.Listener
}

// errTokenUnwritten is the outcome of a round whose majority lost a server before the end.
var errTokenUnwritten = errors.New("a server of the majority did not learn of the token")

// following makes a call that tries once wait for the answer to an earlier request of this process, without which it
// has none.
var following = leases.OptionFunc(func(c *leases.Config) { c.Follows = true })

// newQuorumAcquire returns the contest of a call under ctx for the lease whole of m.
func newQuorumAcquire(ctx context.Context, m *RedLock, opts []leases.Option, cfg leases.Config, whole *leases.Lease) *quorumAcquire {
	e := &quorumAcquire{m: m, ctx: ctx, opts: append(slices.Clip(opts), leases.WithWait(0), following), queueKey: m.queueKey, cfg: cfg, whole: whole}
	if cfg.Polling {
		e.queueKey += "polling"
	}
	e.w = resource.NewWaiter(ctx, whole, &e.cfg) // not used again: a late poke is possible
	e.w.Quorum = true
	e.traced()
	e.rounds.Init(e, quorum.Terms{Servers: len(m.parts), Needs: m.needs(), Once: cfg.Wait == 0, Limit: e.limit()}, &e.mu)
	return e
}

func (e *quorumAcquire) Channel(*resource.Waiter) string { return protocol.LockChannel(e.m.key) }
func (e *quorumAcquire) Hear(string)                     {}

func (e *quorumAcquire) Subject(*resource.Waiter) (kind, key string) {
	return core.KindRedLock, e.m.key
}

func (e *quorumAcquire) Join(*resource.Waiter) resource.Entry {
	if !e.inLine || queuesOf(e.m.parts[0].Client()).join(e) {
		return resource.ToAsk
	}
	return resource.ToWait
}

// Last returns whether the first waiter of this process has the lock, and the last answers of the servers.
func (e *quorumAcquire) Last(*resource.Waiter) (held bool, said engine.AnswerLog) {
	first, said := queuesOf(e.m.parts[0].Client()).first(e)
	if first == nil || first == e {
		return false, said // its turn is next
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	return compositeOf(first.whole) != nil, said
}

// Remind makes the first waiter ask.
func (e *quorumAcquire) Remind(*resource.Waiter) {
	if first, _ := queuesOf(e.m.parts[0].Client()).first(e); first != nil && first != e {
		first.w.Poke()
	}
}

// Leave ends the call. The caller releases its grants.
func (e *quorumAcquire) Leave(*resource.Waiter) {
	e.mu.Lock()
	e.left = true
	listeners := e.listeners
	e.listeners = nil
	e.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
}

// Ask asks all servers. A reentry asks only those with a part of the outer lease: the others first have to grant that a
// part.
func (e *quorumAcquire) Ask(*resource.Waiter) {
	queuesOf(e.m.parts[0].Client()).record(e, (*engine.Answers).Asks)
	ctx, cancel := context.WithTimeout(e.ctx, e.limit())
	r := e.rounds.Begin(cancel)
	r.Caller = e.tracer()
	owner, _ := leases.OwnerFrom(e.ctx)
	open := e.open(owner)
	for i, m := range e.m.parts {
		m.Client().Base().Spawn(func() {
			lease, err := (*leases.Lease)(nil), failure.ErrNotAcquired
			if slices.Contains(open, m) {
				r.Caller.Part(trace.Asks, i, nil)
				lease, err = m.Acquire(ctx, e.opts)
				err = resource.WithoutTheCaller(ctx, e.ctx, err)
			}
			e.answered(r, i, lease, err)
		})
	}
}

// open returns the mutexes that may be asked: those with leases that the call enters, under its context or as those of owner, if they are a majority.
func (e *quorumAcquire) open(owner *leases.Owner) []*locks.Mutex {
	var entered []*locks.Mutex
	for _, m := range e.m.parts {
		l := leases.Enterable(e.ctx, m.Client().Core(), m.Key())
		if l != nil && l.Err() == nil || m.HeldBy(owner) {
			entered = append(entered, m)
		}
	}
	if len(entered) >= e.m.needs() {
		return entered
	}
	return e.m.parts
}

// limit is the time limit for an answer.
func (e *quorumAcquire) limit() time.Duration {
	return min(e.m.parts[0].Client().Base().Settings.RedLockTimeout, e.cfg.TTL/2)
}

// answered handles the answer of a server, or its absence.
func (e *quorumAcquire) answered(r *quorum.Round[*leases.Lease], server int, part *leases.Lease, err error) {
	answer := quorum.Granted
	switch {
	case errors.Is(err, failure.ErrNotAcquired):
		answer = quorum.Refused
	case err != nil && core.Passing(err):
		answer = quorum.Away
	case err != nil:
		answer = quorum.Failed
	}
	if errors.Is(err, failure.ErrClosed) {
		err = nil // no reason before a majority is closed, see Cut
	}
	m := e.m.parts[server]
	switch r.Answer(server, answer, part, err) {
	case quorum.Win:
		switch err := e.win(r, r.Parts); {
		case err == nil:
			e.w.Notify(engine.Event{Kind: engine.Given})
		case errors.Is(err, errTokenUnwritten) && e.cfg.Wait != 0:
			r.Lose()
			e.Cut(r) // another round may be won without the missing answers
		default:
			r.Lose()
			e.lost(r, err)
		}
	case quorum.Lose:
		e.Cut(r)
	case quorum.Join:
		e.admit(compositeOf(e.whole), m, part)
	case quorum.AskOn:
		e.complete(compositeOf(e.whole), m, resource.LocalPassLimit)
	case quorum.Release:
		_ = part.Core().Grant.Unlock(part)
	}
}

// Pace returns how long a server usually takes for an answer.
func (e *quorumAcquire) Pace(server int) time.Duration {
	return time.Duration(e.m.parts[server].Client().Base().Pace.Recent.Load())
}

// Prompt makes the call ask again.
func (e *quorumAcquire) Prompt() { e.w.Poke() }

// win makes parts, a majority, the lease.
func (e *quorumAcquire) win(r *quorum.Round[*leases.Lease], parts []*leases.Lease) error {
	token := int64(0)
	if e.cfg.Fenced {
		var err error
		if token, err = e.raise(r, parts); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	trusted := 0
	for _, part := range parts {
		if part.Err() == nil {
			trusted++
		}
	}
	switch {
	case e.left:
		return failure.ErrNotAcquired // the call is over
	case trusted < e.m.needs():
		return engine.ErrLate
	}
	for _, part := range parts {
		stamp(part, token)
	}
	queuesOf(e.m.parts[0].Client()).record(e, func(a *engine.Answers) { a.Says(false, nil) })
	e.whole.Core().SetToken(token)
	e.began.Store(int64(monotonic.Now()))
	e.compose(parts, r.Caller)
	late, missing := r.Hold()
	for _, part := range late {
		part.Core().Client().Spawn(func() { e.admit(compositeOf(e.whole), e.mutexOf(part), part) })
	}
	for _, server := range missing {
		e.complete(compositeOf(e.whole), e.m.parts[server], resource.LocalPassLimit)
	}
	return nil
}

// mutexOf returns the mutex among the parts of the lock whose lease is part.
func (e *quorumAcquire) mutexOf(part *leases.Lease) *locks.Mutex {
	i := slices.IndexFunc(e.m.parts, func(m *locks.Mutex) bool {
		return m.Client().Core() == part.Core().Client() && m.Key() == part.Core().Key()
	})
	return e.m.parts[i]
}

// compose makes parts the lease, which tr reports.
func (e *quorumAcquire) compose(parts []*leases.Lease, tr *trace.Caller) {
	co := &compositeLease{client: e.m.parts[0].Client().Core(), key: e.m.key, whole: e.whole, needs: e.m.needs(), most: len(e.m.parts), parts: parts, pass: e.pass, replace: e.replace, after: e.after, tr: tr}
	co.begin()
}

// raise returns the largest token of parts once all their servers know it.
func (e *quorumAcquire) raise(r *quorum.Round[*leases.Lease], parts []*leases.Lease) (token int64, err error) {
	for _, part := range parts {
		token = max(token, part.Core().Token())
	}
	ctx, cancel := context.WithTimeout(e.ctx, r.Patience())
	defer cancel()
	_, err = forParts(parts, len(parts), func(part *leases.Lease) (struct{}, error) {
		if part.Core().Token() == token {
			return struct{}{}, nil
		}
		return struct{}{}, e.writeToken(ctx, part, token)
	})
	if err != nil && (ctx.Err() != nil || core.Passing(err) || errors.Is(err, failure.ErrClosed)) { // the next round finds whether a majority is closed
		err = errTokenUnwritten
	}
	return token, err
}

// writeToken writes the token to the server of part.
func (e *quorumAcquire) writeToken(ctx context.Context, part *leases.Lease, token int64) error {
	return transport.Within(core.Present(ctx), part.Core().Client().Net, func() error {
		return part.Core().Client().Net.Run(part.Core().Client().Wire.RaiseToken(part.Core().Key(), token)).Err()
	})
}

// Cut acts on a lost round.
func (e *quorumAcquire) Cut(r *quorum.Round[*leases.Lease]) {
	if e.closed() > len(e.m.parts)-e.m.needs() {
		e.lost(r, failure.ErrClosed)
		return
	}
	e.lost(r, r.Err)
}

// lost releases the grants of a lost round, and notifies the waiter. err is why the call fails, or nil.
func (e *quorumAcquire) lost(r *quorum.Round[*leases.Lease], err error) {
	answer := func(a *engine.Answers) { a.Says(err == nil, err) }
	if err != nil && e.ctx.Err() != nil && errors.Is(err, e.ctx.Err()) { // no answer of a server
		answer = (*engine.Answers).Withdraws
	}
	queuesOf(e.m.parts[0].Client()).record(e, answer)
	if err == nil && e.cfg.Wait != 0 && !e.cfg.Polling {
		e.listen()
	}
	undo(e.ctx, r.Parts)
	if err != nil { // each server was asked again if necessary
		e.w.Notify(engine.Event{Kind: engine.Failed, Err: err, Final: true})
		return
	}
	e.w.Notify(engine.Event{Kind: engine.Refused, TTL: r.Pause, InLine: true})
}

// listen makes the call hear of releases.
func (e *quorumAcquire) listen() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left || e.listeners != nil {
		return
	}
	for i, m := range e.m.parts {
		e.listeners = append(e.listeners, m.Client().Base().Net.Listen(protocol.LockChannel(m.Key()), func(ev hub.Event) {
			if !ev.Subscribed {
				e.rounds.Heard(i)
			}
		}))
	}
	e.rounds.Listens()
}

// took is how long a majority took to answer the latest round.
func (e *quorumAcquire) took() time.Duration { return time.Duration(e.rounds.Took.Load()) }

// closed returns how many of the servers are not asked any more, since their clients are closed.
func (e *quorumAcquire) closed() (n int) {
	for _, m := range e.m.parts {
		if !m.Client().Base().Granting() {
			n++
		}
	}
	return n
}
