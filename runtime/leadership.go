package lockrt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Leadership is one term of one candidate. It ends once: by Resign, by loss, or by closing the [Client]. Err, Until and Token are those
// of its [Lease].
type Leadership struct {
	e     *Election
	lease *Lease

	resigned chan struct{} // closed when Resign has released the lease, or tried to
	resign   sync.Once
	again    chan struct{} // has a value when the record is to be written again

	writing sync.Mutex // guards that only one goroutine writes the record
	mu      sync.Mutex // guards the value
	value   string
}

func newLeadership(e *Election, lease *Lease, value string) *Leadership {
	return &Leadership{e: e, lease: lease, value: value, resigned: make(chan struct{}), again: make(chan struct{}, 1)}
}

// none reports whether l is no leadership.
func (l *Leadership) none() bool { return l == nil || l.lease == nil }

// Context returns a context that ends with the leadership. Do the work of the leader under it.
func (l *Leadership) Context() context.Context {
	if l.none() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errNoLease)
		return ctx
	}
	return l.lease.Context()
}

// Err returns nil while the leadership is trusted, then the reason why it ended.
func (l *Leadership) Err() error {
	if l.none() {
		return &Error{Op: "leadership", Err: errNoLease}
	}
	return l.lease.Err()
}

// Until returns when the trust in the leadership ends, unless it is renewed.
func (l *Leadership) Until() time.Time {
	if l.none() {
		return time.Time{}
	}
	return l.lease.Until()
}

// Token returns the fencing token of the term.
func (l *Leadership) Token() int64 {
	if l.none() {
		return 0
	}
	return l.lease.Token()
}

// Proclaim gives the leader another value: one round trip. It fails with the error that ended the leadership, and with [ErrLost] if Redis
// knows another leader. After another error the Client goes on trying to show the new value.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if l.none() {
		return &Error{Op: "proclaim", Err: errNoLease}
	}
	fail := func(err error) error { return failedAt("proclaim", l.e.name, err) }
	switch {
	case ctx == nil:
		return fail(errNoContext)
	case len(value) > mostValue:
		return fail(tooLong(value))
	}
	if err := l.lease.Err(); err != nil {
		return fail(err)
	}
	l.mu.Lock()
	l.value = value
	l.mu.Unlock()
	if err := l.write(ctx); err != nil {
		select {
		case l.again <- struct{}{}:
		default:
		}
		return fail(err)
	}
	return nil
}

// Resign ends the leadership; its context and errors are those of [Lease.Unlock]: the candidate that has waited longest leads at once.
func (l *Leadership) Resign(context.Context) error {
	if l.none() {
		return &Error{Op: "resign", Err: errNoLease}
	}
	defer l.resign.Do(func() { close(l.resigned) })
	err := l.lease.grant.unlock(l.lease)
	l.lease.report()
	if err != nil {
		return failedAt("resign", l.e.name, err)
	}
	return nil
}

// record returns the record of l.
func (l *Leadership) record() protocol.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return protocol.Term{Owner: l.lease.guard.Owner(), Token: l.lease.token, Value: l.value}
}

// confirm repeats write until Redis has answered, or the lease's context ends.
func (l *Leadership) confirm(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := l.write(ctx)
		if err == nil || errors.Is(err, ErrLost) || !passing(err) {
			return err
		}
		timer := time.NewTimer(l.e.c.opts.Retry.pause(failures))
		select {
		case <-timer.C:
		case <-l.lease.Context().Done():
			timer.Stop()
			return cmpOr(l.lease.Err(), ended(l.lease.Context()))
		}
	}
}

// write writes to Redis that l leads, and with which value.
func (l *Leadership) write(ctx context.Context) error {
	c := l.e.c
	return refused(within(ctx, c, func() error {
		l.writing.Lock() // so that the later of two values stays
		defer l.writing.Unlock()
		if err := l.lease.Err(); err != nil {
			return err
		}
		written, err := c.net.Run(c.wire.Lead(l.e.name, l.record(), leaderKeep)).Int()
		if err == nil && written == 0 {
			err = fmt.Errorf("%w: Redis names another leader", ErrLost)
		}
		return err
	}))
}

// confirmEvery is the interval in which the record is written again.
const confirmEvery = leaderKeep / 3

// keep confirms the record while l leads, and removes it then, so that observers see the end.
func (l *Leadership) keep() {
	c, every := l.e.c, confirmEvery
	ended := l.lease.Context().Done()
	timer := time.NewTimer(every)
	defer timer.Stop()
	for l.lease.Err() == nil {
		write := true
		select {
		case <-l.resigned:
		case <-ended:
			// The lease outlives the context of the caller, who may be ending the work. After that only Resign reports
			// its end.
			ended, every, write = nil, time.Second, false
		case <-l.again:
		case <-timer.C:
			write = ended != nil
		}
		if write && l.lease.Err() == nil {
			if err := l.confirm(context.Background()); err != nil && l.lease.Err() == nil {
				c.opts.Logger.Warn("lockgen: a leader could not confirm that it leads; observers may take it for gone", "kind", kindElection, "key", l.e.name, "owner", l.lease.ownerName(), "error", err)
			}
		}
		timer.Reset(every)
	}
	l.remove()
}

// remove removes the record of l, unless the client is closed: then it is left to expire with the lock.
func (l *Leadership) remove() {
	if errors.Is(l.lease.Err(), ErrClosed) {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.e.c.net.Run(l.e.c.wire.Resign(l.e.name, l.record())) // the removal only lets observers see the end at once
}
