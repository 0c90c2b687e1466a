// Package counting has the machinery of semaphores, permits and latches: what they send, how the permits of this process end,
// and how long they last. Package engine has the queue of the waiters and the numbers of the requests.
package counting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// The kinds that count.
const (
	Semaphore = string(observe.KindSemaphore)
	Permits   = string(observe.KindPermit)
	Latch     = string(observe.KindLatch)
)

// A Client is what the counters of one client have in common.
type Client struct {
	Host

	Wire      protocol.Process
	Net       *transport.Transport
	Watchdog  *watchdog.Watchdog
	Logger    *slog.Logger
	OpTimeout time.Duration
}

// A Host is the client itself.
type Host interface {
	Number() uint64
	Granting() bool
	Spawn(f func())
	Pause(d time.Duration) bool
	Backoff(tries int) time.Duration
	// Closing returns a channel that is closed when the client grants nothing any more.
	Closing() <-chan struct{}
	// Held counts the keys that the process holds in Redis.
	Held(change int)
	// Listen begins to listen for the holders of key: the server may have lost it.
	Listen(key string)
	// Later calls f with the permits named key, on a goroutine that the end of the client waits for.
	Later(key string, f func(k *Count))
}

// A Count is one key that counts, without its waiters: changes of it, and the permits of this process.
type Count struct {
	Kind string
	Name string // the key

	c       *Client
	entry   Entry
	mu      *sync.Mutex // of the entry
	changes *engine.Changes
	drained atomic.Pointer[drain] // the last one that has begun, or nil
	permits map[*Permit]struct{}  // that this process holds; guarded by mu
}

// An Entry is the place of a count in the client, which forgets it when nothing refers to it.
type Entry struct{ Stay, Quit func() }

// A Count is the host of its counter.

func (k *Count) Number() uint64                  { return k.c.Number() }
func (k *Count) Granting() bool                  { return k.c.Granting() }
func (k *Count) Pause(d time.Duration) bool      { return k.c.Pause(d) }
func (k *Count) Backoff(tries int) time.Duration { return k.c.Backoff(tries) }
func (k *Count) Fate(err error) (unknown, passing bool) {
	_, another := errors.AsType[*oneOfSeveral](err)
	return another || transport.Unknown(err) || transport.Unconfirmed(err), transport.Passing(err)
}

func (k *Count) Spawn(f func()) {
	k.entry.Stay()
	k.c.Spawn(func() {
		defer k.entry.Quit()
		f()
	})
}

// Abandoned logs on another goroutine: the caller may have the lock of the count, and the handler of the log is the user's.
func (k *Count) Abandoned(batch bool, err error) {
	k.Spawn(func() {
		if batch {
			k.c.Logger.Warn("lockgen: a request could not be withdrawn; what it took may be lost", "kind", k.Kind, "key", k.Name, "error", err)
		} else {
			k.c.Logger.Warn("lockgen: a change may not have been made", "kind", k.Kind, "key", k.Name, "error", err)
		}
	})
}

// numbered returns a request in the form of the scripts.
func numbered(number, oldest uint64) protocol.Request {
	return protocol.Request{Number: number, Oldest: oldest, Keep: engine.KeepResults}
}

// inTime returns an error for the reply to a request that the client gave up before.
func inTime(n int64, err error) (int64, error) {
	if err == nil && n == protocol.Outdated {
		err = protocol.ErrOutdated
	}
	return n, err
}

// Change makes a script change the count, once, however often it is sent: for the caller until ctx ends, at most for
// the time limit of calls, and then, if anyway is set, in the background.
func (k *Count) Change(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command) (int64, error) {
	n, _, err := k.request(ctx, anyway, cmd, nil)
	return n, err
}

// request is Change, and reports whether the outcome is known. undo is for a change that takes something, see [engine.Changes.Change].
func (k *Count) request(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command, undo *engine.Undo) (n int64, known bool, err error) {
	var said refusal
	n, answered, err := k.changes.Change(ctx, k.c.OpTimeout, anyway, k.sending(cmd, &said), undo)
	if one, ok := errors.AsType[*oneOfSeveral](err); ok {
		answered, err = false, one.error
	}
	known = answered && !transport.Unknown(err)
	n, err = k.changed(ctx, anyway, n, answered, err, &said)
	return n, known, err
}

// sending returns what sends a numbered request.
func (k *Count) sending(cmd func(protocol.Request) protocol.Command, said *refusal) engine.Send {
	return func(number, oldest uint64, left <-chan struct{}) (int64, error) {
		reply, again := k.c.Net.RunUntil(left, cmd(numbered(number, oldest)))
		n, err := said.hear(inTime(reply.Int()))
		if again && err != nil {
			err = &oneOfSeveral{err}
		}
		return n, err
	}
}

// insist calls send until it is answered: for the caller at most for the time limit of calls, and then in the background.
func (k *Count) insist(send func() (int64, error)) (int64, error) {
	var said refusal
	ctx := context.Background()
	n, answered, err := k.changes.Insist(ctx, k.c.OpTimeout, func() (int64, error) { return said.hear(send()) })
	return k.changed(ctx, true, n, answered, err, &said)
}

// A oneOfSeveral is the error of one copy of a request. Another copy may have been done.
type oneOfSeveral struct{ error }

func (e *oneOfSeveral) Unwrap() error { return e.error }

// A refusal is the last error that Redis replied to a request.
type refusal struct{ last atomic.Pointer[error] }

// hear takes the answer to a request, and returns it.
func (r *refusal) hear(n int64, err error) (int64, error) {
	if _, replied := transport.Replied(err); replied {
		r.last.Store(&err)
	}
	return n, err
}

// String returns the end of the error of a caller that waits no longer.
func (r *refusal) String() string {
	if err := r.last.Load(); err != nil {
		return fmt.Sprint("; Redis last failed with: ", *err)
	}
	return ""
}

// changed returns the outcome of a change for its caller.
func (k *Count) changed(ctx context.Context, anyway bool, n int64, answered bool, err error, said *refusal) (int64, error) {
	switch {
	case answered:
		return n, k.c.Net.Refused(err)
	case ctx.Err() != nil:
		return 0, failure.Ended(ctx)
	case err != nil:
		return 0, fmt.Errorf("%w: it may have been done by a request without an answer; the last one failed: %w", failure.ErrUnavailable, transport.Refused(err))
	case anyway:
		return 0, fmt.Errorf("%w: no answer within %v; it is done as soon as Redis answers%v", failure.ErrUnavailable, k.c.OpTimeout, said)
	}
	return 0, fmt.Errorf("%w: no answer within %v%v", failure.ErrUnavailable, k.c.OpTimeout, said)
}

// semaphore returns the commands of a semaphore of either kind.
func (k *Count) semaphore() protocol.Semaphore {
	if k.Kind == Permits {
		return k.c.Wire.PermitSemaphore(k.Name).Semaphore
	}
	return k.c.Wire.Semaphore(k.Name)
}

// Add adds permits to a semaphore of either kind. It returns 1 if it did, or if the semaphore existed.
func (k *Count) Add(ctx context.Context, n int, missing protocol.Missing, anyway bool) (int64, error) {
	permits := k.semaphore()
	return k.Change(ctx, anyway, func(r protocol.Request) protocol.Command { return permits.Add(r, n, missing) })
}

// Create creates a semaphore of either kind. It returns 1 if it did.
func (k *Count) Create(ctx context.Context, n int, ttl time.Duration) (int64, error) {
	permits := k.semaphore()
	return k.Change(ctx, false, func(r protocol.Request) protocol.Command { return permits.Create(r, n, ttl) })
}

// SetTotal sets how many permits there are in all.
func (k *Count) SetTotal(ctx context.Context, n int) (int64, error) {
	permits := k.c.Wire.PermitSemaphore(k.Name)
	return k.Change(ctx, false, func(r protocol.Request) protocol.Command { return permits.SetTotal(r, n) })
}
