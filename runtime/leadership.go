package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/election"
)

// A Leadership is one term of one candidate. It ends once: by Resign, by loss, or by closing the [Client]. Err, Until and Token are those
// of its [Lease].
type Leadership struct {
	e     *Election
	lease *Lease
	term  *election.Term
}

// none reports whether l is no leadership.
func (l *Leadership) none() bool { return l == nil || l.lease == nil }

// Context returns a context that ends with the leadership. Do the work of the leader under it.
func (l *Leadership) Context() context.Context { return orZero(l).lease.Context() }

// Err returns nil while the leadership is trusted, then the reason why it ended.
func (l *Leadership) Err() error {
	if l.none() {
		return &Error{Op: "leadership", Err: errNoLease}
	}
	return l.lease.Err()
}

// Until returns when the trust in the leadership ends, unless it is renewed.
func (l *Leadership) Until() time.Time { return orZero(l).lease.Until() }

// Token returns the fencing token of the term.
func (l *Leadership) Token() int64 { return orZero(l).lease.Token() }

// Proclaim gives the leader another value: one round trip. It fails with the error that ended the leadership, and with [ErrLost] if Redis
// knows another leader. After another error the Client goes on trying to show the new value.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if l.none() {
		return &Error{Op: "proclaim", Err: errNoLease}
	}
	fail := func(err error) error { return failedAt("proclaim", l.e.name, err) }
	if ctx == nil {
		return fail(errNoContext)
	}
	if err := election.CheckValue(value); err != nil {
		return fail(err)
	}
	return fail(l.term.Proclaim(ctx, value))
}

// Resign ends the leadership; its context and errors are those of [Lease.Unlock]: the candidate that has waited longest leads at once.
func (l *Leadership) Resign(context.Context) error {
	if l.none() {
		return &Error{Op: "resign", Err: errNoLease}
	}
	return failedAt("resign", l.e.name, l.term.Resign())
}
