package lockrt

import (
	"context"
	"iter"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// An Election chooses one leader among candidates: the holder of the [Mutex] of its name, with a fencing token. A
// leadership makes the promises of a lease. Each candidate has a value for observers, such as its address. The key
// lockgen_leader:{name} has the record of the leader: the leader writes it again every 20 seconds, and it expires after 10
// minutes. Compare etcd's concurrency.Election.
//
//	err := client.Election("reports").Lead(ctx, addr, func(ctx context.Context, l *lockrt.Leadership) error {
//		return serve(ctx) // ends before another candidate can lead
//	})
type Election locks.Election

// Election returns the election of that name, which is the key of its [Mutex]. WithWatchdog is how long a dead leader
// stays the leader, WithWait is how long a campaign may wait. [WithFencing] is implied.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	return (*Election)((*locks.Client)(c).Election(name, optionsOf(opts)...))
}

// Name returns the name of the election, the key of its mutex.
func (e *Election) Name() string { return (*locks.Election)(e).Name() }

// A Leader is the leader of an [Election], as Redis knows it.
type Leader struct {
	Value  string // its value for observers
	Token  int64  // the fencing token of its term: larger than that of every earlier one; 0 without a leader
	Client string // the [Client.ID] of its client
}

// Campaign waits until this candidate leads. It fails like Lock; under its own leadership, and for a value of more than 64 KB, with
// [ErrBadOption]. One round trip more than Lock.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	leadership, err := (*locks.Election)(e).Campaign(ctx, value)
	return (*Leadership)(leadership), err
}

// Lead campaigns with value, calls fn while this candidate leads, and campaigns again when the leadership was lost,
// until ctx ends or fn returns while it leads; then it resigns. fn must return when its context ends. Lead returns the
// error of fn, of ctx, or one that would also fail the next campaign, such as [ErrWrongType], [ErrClosed] or, after
// [WithWait], [ErrNotAcquired]. It waits out any outage of Redis and writes a line about it, and about each lost
// leadership, to [Options.Logger].
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context, l *Leadership) error) error {
	if fn == nil {
		return core.NoFunction("lead", e.Name())
	}
	return (*locks.Election)(e).Lead(ctx, value, func(ctx context.Context, l *locks.Leadership) error { return fn(ctx, (*Leadership)(l)) })
}

// Leader asks Redis for the leader. Token is 0 if there is none, or none yet.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, err := (*locks.Election)(e).Leader(ctx)
	return Leader(leader), err
}

// Observe returns the leader at once and after each change of leader or value. Several changes during the loop body are
// one: the last. Token is 0 without a leader.
//
//	for leader, err := range election.Observe(ctx) {
//		route(leader, err) // with an error it is the last one known
//	}
//
// During an outage it returns one error, which matches [ErrUnavailable]. The loop ends with ctx, or after a permanent
// error. It sees a change within milliseconds, and the end of a dead leader when its lease is over. Each look costs one round
// trip. Observe looks after each change, when the lease of the leader would be over if it were not renewed, every 30s with a
// leader and every 5s without one. While the client receives no messages, it looks every 500ms.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		(*locks.Election)(e).Observe(ctx)(func(leader election.Leader, err error) bool { return yield(Leader(leader), err) })
	}
}

// A Leadership is one term of one candidate. It ends once: by Resign, by loss, or by closing the [Client]. Err, Until and Token are those
// of its [Lease].
type Leadership locks.Leadership

// Context returns a context that ends with the leadership. Do the work of the leader under it.
func (l *Leadership) Context() context.Context { return (*locks.Leadership)(l).Context() }

// Err returns nil while the leadership is trusted, then the reason why it ended.
func (l *Leadership) Err() error { return (*locks.Leadership)(l).Err() }

// Until returns when the trust in the leadership ends, unless it is renewed.
func (l *Leadership) Until() time.Time { return (*locks.Leadership)(l).Until() }

// Token returns the fencing token of the term.
func (l *Leadership) Token() int64 { return (*locks.Leadership)(l).Token() }

// Proclaim gives the leader another value: one round trip. It fails with the error that ended the leadership, and with [ErrLost] if Redis
// knows another leader. After another error the Client goes on trying to show the new value.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	return (*locks.Leadership)(l).Proclaim(ctx, value)
}

// Resign ends the leadership; its context and errors are those of [Lease.Unlock]: the candidate that has waited longest leads at once.
func (l *Leadership) Resign(ctx context.Context) error { return (*locks.Leadership)(l).Resign(ctx) }
