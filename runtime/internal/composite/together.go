package composite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// together returns how many lockers at the beginning are mutexes of one client.
func together(lockers []locks.Locker) (n int) {
	var c *locks.Client
	for i, l := range lockers {
		m, ok := l.(*locks.Mutex)
		if !ok || i > 0 && m.Client() != c {
			return i
		}
		c = m.Client()
	}
	return len(lockers)
}

// neighbours returns the mutexes of one client at the beginning of lockers.
func neighbours(lockers []locks.Locker) []*locks.Mutex {
	mutexes := make([]*locks.Mutex, together(lockers))
	for i := range mutexes {
		mutexes[i] = lockers[i].(*locks.Mutex) //nolint:forcetypeassert // together says so
	}
	return mutexes
}

// errGivenBack is the outcome of a try that another member made useless.
var errGivenBack = errors.New("given back, as another part of the MultiLock is not to be had")

// A trial is one try to lock a mutex among others.
type trial struct {
	m        *locks.Mutex
	own      context.Context // the context of the try
	resource *policy.Mutex   // nil without a resource to contend at
	w        *resource.Waiter
	entry    resource.Entry // the result of joining the resource
	cfg      *leases.Config // which those of equal options share
	lease    *leases.Lease
	err      error
}

// A trialList has the trials of one call of tryTogether, and is kept to be used again. Nothing else knows them then.
type trialList struct {
	began           monotonic.Time
	all             []trial
	takes, acquires []transport.Request
}

var trialLists = sync.Pool{New: func() any { return new(trialList) }}

func (x *trialList) recycle() {
	clear(x.all)
	clear(x.takes)
	clear(x.acquires)
	x.all, x.takes, x.acquires = x.all[:0], x.takes[:0], x.acquires[:0]
	trialLists.Put(x)
}

// tryTogether tries to lock all mutexes, which are of one client, at once, each under the context of the one before,
// the first under that. It returns the leases before the first one that was refused and the error of that; it releases
// those behind it. again reports that waiting may help. ctx is that of the call, which has no bound if
// endless is set. The try ends at end if there is no answer, unless that is zero.
func tryTogether(ctx, under context.Context, tr *trace.Caller, mutexes []*locks.Mutex, end time.Time, endless bool, opts []leases.Option) (got []*leases.Lease, again bool, err error) {
	c := mutexes[0].Client()
	list := trialLists.Get().(*trialList)
	defer list.recycle()
	if again = list.approach(c, under, mutexes, opts); again {
		list.ask(c, endless && ctx.Done() == nil) // as take of a mutex does
		list.awaitUntil(ctx, end, c)
	} else {
		list.leave()
	}
	got = make([]*leases.Lease, 0, len(list.all))
	var behind []*leases.Lease
	for i := range list.all {
		t := &list.all[i]
		switch {
		case t.err != nil:
			tracesPart(tr, i, nil)
			if err == nil || !again { // when nothing was sent: the error of the last one, which is the reason
				err = &observe.Error{Op: "lock", Key: t.m.Key(), Err: t.err, Holder: leases.HolderOf(c.Core(), core.KindMutex, t.m.Key(), nil, t.err)}
			}
			continue
		case err != nil:
			behind = append(behind, t.lease)
		default:
			got = append(got, t.lease)
		}
		tracesPart(tr, i, t.lease)
	}
	undo(ctx, behind)
	return got, again, err
}

// approach begins a trial of each of the mutexes, up to one that turns its waiter away: those behind it need not be tried. It reports false if one
// fails before anything is sent.
func (x *trialList) approach(c *locks.Client, under context.Context, mutexes []*locks.Mutex, opts []leases.Option) bool {
	opts = append(slices.Clip(opts), leases.WithWait(0))
	x.all = slices.Grow(x.all, len(mutexes))
	x.began = monotonic.Now()
	next := leases.Several(c.Core(), core.KindMutex, len(mutexes), under)
	above := under // each member has a key of its own, so none enters again under a lease that this call makes
	for i, m := range mutexes {
		x.all = append(x.all, trial{m: m, own: under})
		t := &x.all[i]
		if i > 0 && len(m.Options()) == 0 && len(mutexes[i-1].Options()) == 0 {
			t.cfg = x.all[i-1].cfg
		} else {
			t.cfg = new(leases.Config)
			*t.cfg, t.err = leases.Configure(c.Core(), m.Options(), opts)
		}
		if t.err == nil {
			t.resource, t.lease, t.err = m.Approach(above, next(t.own), t.cfg)
		}
		if t.err != nil {
			return false
		}
		under = t.lease.Context()
		if t.resource == nil {
			continue
		}
		t.w = resource.NewWaiterSince(t.own, x.began, t.lease, t.cfg)
		t.entry = t.resource.Join(t.w)
		if t.entry == resource.TurnedAway {
			break
		}
	}
	return true
}

// ask sends the requests of all trials that have none yet, in as few scripts as possible. inline is as with
// [transport.Batcher.Submit].
func (x *trialList) ask(c *locks.Client, inline bool) {
	rooms := make([]resource.Grant, len(x.all)) // the leases are in one piece of memory, too, see [leases.Several], and have these
	for i := range x.all {
		t := &x.all[i]
		if t.resource == nil || t.entry != resource.ToAsk {
			continue
		}
		op := t.resource.Prepare(t.w)
		if op == nil {
			continue // it was handed over a moment ago
		}
		op.Room = &rooms[i]
		switch {
		case op.To == c.Base().Takes:
			x.takes = append(x.takes, op)
		default:
			x.acquires = append(x.acquires, op)
		}
	}
	c.Base().Takes.SubmitAll(x.takes, inline)
	c.Base().Acquires.SubmitAll(x.acquires, inline)
}

// awaitUntil is await that ends at end, unless that is zero: then the trials have no answer.
func (x *trialList) awaitUntil(ctx context.Context, end time.Time, c *locks.Client) {
	if end.IsZero() {
		x.await(ctx, c)
		return
	}
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	x.await(within, c)
	for i := range x.all {
		if t := &x.all[i]; errors.Is(t.err, context.DeadlineExceeded) && ctx.Err() == nil { // the context of the caller has not ended
			t.err = transport.Unavailable(" after "+monotonic.Since(x.began).Round(time.Millisecond).String(), transport.ErrNoAnswer)
		}
	}
}

// await waits for the outcome of each trial.
func (x *trialList) await(ctx context.Context, c *locks.Client) {
	var contests []asked // of those that have to wait; a listener may know its contest for longer than the call
	for i := range x.all {
		t := &x.all[i]
		if t.resource == nil {
			continue
		}
		lease, done, err := c.Base().Collect(ctx, t.resource, t.w, t.cfg)
		if !done {
			if contests == nil {
				contests = make([]asked, len(x.all))
			}
			contests[i] = asked{Mutex: t.resource, entry: t.entry, again: t.entry != resource.ToAsk}
			lease, err = c.Base().Contend(ctx, &contests[i], t.w, t.cfg, nil)
		}
		t.err = err
		if lease != nil {
			t.lease = lease // the one that it had from the beginning
		}
		t.resource.Exit()
	}
}

// leave ends the trials, of which none has sent anything.
func (x *trialList) leave() {
	for i := range x.all {
		t := &x.all[i]
		if t.resource == nil {
			continue
		}
		t.resource.Leave(t.w)
		resource.Recycle(t.w)
		t.resource.Exit()
		t.err = errGivenBack
	}
}

// asked is a resource that a waiter has joined already, and asked if it has to.
type asked struct {
	*policy.Mutex

	entry resource.Entry // the result of joining; returned once
	known bool           // entry has been returned
	again bool
}

// Join returns the result of joining, and joins again when there is a reason: no resource notifies a waiter that it
// turned away.
func (q *asked) Join(w *resource.Waiter) resource.Entry {
	if q.known {
		return q.Mutex.Join(w)
	}
	q.known = true
	return q.entry
}

func (q *asked) Ask(w *resource.Waiter) {
	if q.again {
		q.Mutex.Ask(w)
	}
	q.again = true
}
