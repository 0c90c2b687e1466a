package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// neighbours returns the mutexes of one client at the beginning of lockers.
func neighbours(lockers []locks.Locker) (mutexes []*locks.Mutex) {
	for _, l := range lockers {
		m, ok := l.(*locks.Mutex)
		if !ok || len(mutexes) > 0 && m.Client() != mutexes[0].Client() {
			break
		}
		if mutexes == nil {
			mutexes = make([]*locks.Mutex, 0, len(lockers))
		}
		mutexes = append(mutexes, m)
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
	asked    asked
	cfg      *leases.Config // which those of equal options share
	lease    *leases.Lease
	err      error
}

// tryTogether tries to lock all mutexes, which are of one client, at once, each under the context of the one before,
// the first under that. It returns the leases before the first one that was refused and the error of that; it releases
// those behind it. again reports that waiting may help. ctx and wait are those of the call.
func tryTogether(ctx, under context.Context, tr *trace.Caller, mutexes []*locks.Mutex, wait time.Duration, opts []leases.Option) (got []*leases.Lease, again bool, err error) {
	c := mutexes[0].Client()
	opts = append(slices.Clip(opts), leases.WithWait(0))
	trials := make([]trial, 0, len(mutexes))
	again = true
	next := leases.Several(c.Core(), core.KindMutex, len(mutexes), under)
	above := under // each member has a key of its own, so none enters again under a lease that this call makes
	for i, m := range mutexes {
		trials = append(trials, trial{m: m, own: under})
		t := &trials[i]
		if i > 0 && len(m.Options()) == 0 && len(mutexes[i-1].Options()) == 0 {
			t.cfg = trials[i-1].cfg
		} else {
			t.cfg = new(leases.Config)
			*t.cfg, t.err = leases.Configure(c.Core(), m.Options(), opts)
		}
		if t.err == nil {
			t.resource, t.lease, t.err = m.Approach(above, next(m.Key(), t.own), t.cfg)
		}
		if t.err != nil {
			again = false // nothing is sent
			break
		}
		under = t.lease.Context()
		if t.resource == nil {
			continue
		}
		t.w = resource.NewWaiter(t.own, t.lease, t.cfg)
		t.entry = t.resource.Join(t.w)
		if t.entry == resource.TurnedAway {
			break // the mutexes behind it need not be tried
		}
	}
	if again {
		ask(c, trials, c.Base().Net.Prompt() && wait == leases.UntilDone && ctx.Done() == nil) // as take of a mutex does
	}
	got = make([]*leases.Lease, 0, len(trials))
	var behind []*leases.Lease
	for i := range trials {
		t := &trials[i]
		switch {
		case t.resource == nil:
		case !again:
			t.resource.Leave(t.w)
			resource.Recycle(t.w)
			t.resource.Exit()
			t.err = errGivenBack
		default:
			var lease *leases.Lease
			t.asked = asked{Mutex: t.resource, entry: t.entry, again: t.entry != resource.ToAsk}
			if lease, t.err = c.Base().Contend(ctx, &t.asked, t.w, t.cfg, nil); lease != nil {
				t.lease = lease // the one that it had from the beginning
			}
			t.resource.Exit()
		}
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

// ask sends the requests of all trials that have none yet, in as few scripts as possible. inline is as with
// [transport.Batcher.Submit].
func ask(c *locks.Client, trials []trial, inline bool) {
	takes := make([]transport.Request, 0, len(trials))
	var acquires []transport.Request
	for i := range trials {
		t := &trials[i]
		if t.resource == nil || t.entry != resource.ToAsk {
			continue
		}
		switch op := t.resource.Prepare(t.w); {
		case op == nil: // it was handed over a moment ago
		case op.To == c.Base().Takes:
			takes = append(takes, op)
		default:
			acquires = append(acquires, op)
		}
	}
	c.Base().Takes.SubmitAll(takes, inline)
	c.Base().Acquires.SubmitAll(acquires, inline)
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
