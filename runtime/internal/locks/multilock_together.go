package locks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// neighbours returns the mutexes of one client at the beginning of lockers.
func neighbours(lockers []Locker) (mutexes []*Mutex) {
	for _, l := range lockers {
		m, ok := l.(*Mutex)
		if !ok || len(mutexes) > 0 && m.c != mutexes[0].c {
			break
		}
		if mutexes == nil {
			mutexes = make([]*Mutex, 0, len(lockers))
		}
		mutexes = append(mutexes, m)
	}
	return mutexes
}

// errGivenBack is the outcome of a try that another member made useless.
var errGivenBack = errors.New("given back, as another part of the MultiLock is not to be had")

// A trial is one try to lock a mutex among others.
type trial struct {
	m        *Mutex
	own      context.Context // of the try
	resource *resource       // nil without a resource to contend at
	w        *waiter
	entry    entry // the result of joining the resource
	asked    asked
	cfg      lockConfig
	lease    *Lease
	err      error
}

// tryTogether tries to lock all mutexes, which are of one client, at once, each under the context of the one before,
// the first under that. It returns the leases before the first one that was refused and the error of that; it releases
// those behind it. again reports that waiting may help. ctx and wait are those of the call.
func tryTogether(ctx, under context.Context, tr *trace.Caller, mutexes []*Mutex, wait time.Duration, opts []LockOption) (got []*Lease, again bool, err error) {
	c := mutexes[0].c
	opts = append(slices.Clip(opts), WithWait(0))
	trials := make([]trial, 0, len(mutexes))
	again = true
	for i, m := range mutexes {
		trials = append(trials, trial{m: m, own: under})
		t := &trials[i]
		if i > 0 && len(m.opts) == 0 && len(mutexes[i-1].opts) == 0 {
			t.cfg = trials[i-1].cfg
		} else {
			t.cfg, t.err = configure(c.core(), m.opts, opts)
		}
		if t.err == nil {
			t.resource, t.lease, t.err = m.approach(t.own, t.cfg)
		}
		if t.err != nil {
			again = false // nothing is sent
			break
		}
		under = t.lease.Context()
		if t.resource == nil {
			continue
		}
		t.w = newWaiter(t.own, t.lease, t.cfg)
		t.entry = t.resource.join(t.w)
		if t.entry == turnedAway {
			break // the mutexes behind it need not be tried
		}
	}
	if again {
		ask(c, trials, c.net.Prompt() && wait == UntilDone && ctx.Done() == nil) // as in [Mutex.take]
	}
	got = make([]*Lease, 0, len(trials))
	var behind []*Lease
	for i := range trials {
		t := &trials[i]
		switch {
		case t.resource == nil:
		case !again:
			t.resource.leave(t.w)
			recycle(t.w)
			t.resource.exit()
			t.err = errGivenBack
		default:
			var lease *Lease
			t.asked = asked{resource: t.resource, entry: t.entry, again: t.entry != toAsk}
			if lease, t.err = c.contend(ctx, &t.asked, t.w, t.cfg, nil); lease != nil {
				t.lease = lease // the one that it had from the beginning
			}
			t.resource.exit()
		}
		switch {
		case t.err != nil:
			tracesPart(tr, i, nil)
			if err == nil || !again { // when nothing was sent: the error of the last one, which is the reason
				err = &observe.Error{Op: "lock", Key: t.m.key, Err: t.err, Holder: holderOf(c.core(), kindMutex, t.m.key, nil, t.err)}
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
func ask(c *Client, trials []trial, inline bool) {
	takes := make([]transport.Request, 0, len(trials))
	var acquires []transport.Request
	for i := range trials {
		t := &trials[i]
		if t.resource == nil || t.entry != toAsk {
			continue
		}
		switch op := t.resource.prepare(t.w); {
		case op == nil: // it was handed over a moment ago
		case op.to == c.takes:
			takes = append(takes, op)
		default:
			acquires = append(acquires, op)
		}
	}
	c.takes.SubmitAll(takes, inline)
	c.acquires.SubmitAll(acquires, inline)
}

// asked is a resource that a waiter has joined already, and asked if it has to.
type asked struct {
	*resource

	entry entry // the result of joining; returned once
	known bool  // entry has been returned
	again bool
}

// join returns the result of joining, and joins again when there is a reason: no resource notifies a waiter that it
// turned away.
func (q *asked) join(w *waiter) entry {
	if q.known {
		return q.resource.join(w)
	}
	q.known = true
	return q.entry
}

func (q *asked) ask(w *waiter) {
	if q.again {
		q.resource.ask(w)
	}
	q.again = true
}
