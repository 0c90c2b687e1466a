package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

const (
	// leaderKeep is how long Redis keeps the record of the leader. The record is worthless once the mutex has another
	// holder.
	leaderKeep = 10 * time.Minute

	// confirmEvery is the interval in which the record is written again: for so long observers see no leader if somebody deletes the record.
	confirmEvery = 20 * time.Second
)

// A Term is the leadership of one candidate, which has a lease.
type Term struct {
	e     *Election
	lease Lease

	resigned chan struct{} // closed when Resign has released the lease, or tried to
	resign   sync.Once
	again    chan struct{} // has a value when the record is to be written again

	writing sync.Mutex // guards that only one goroutine writes the record
	doubts  int        // number of requests so far that Redis may still run after a later one; guarded by writing
	mu      sync.Mutex // guards the value
	value   string
}

// Begin records that the holder of the lease leads, and keeps the record until the lease ends. After an error the lease is released.
func (e *Election) Begin(ctx context.Context, lease Lease, value string) (*Term, error) {
	t := &Term{e: e, lease: lease, value: value, resigned: make(chan struct{}), again: make(chan struct{}, 1)}
	if err := t.confirm(ctx); err != nil {
		err = failure.Join(err, lease.Unlock(ctx))
		e.c.Spawn(t.remove)
		return nil, err
	}
	e.c.Spawn(t.keep)
	return t, nil
}

// Proclaim gives the leader another value. After an error the record is written again in the background.
func (t *Term) Proclaim(ctx context.Context, value string) error {
	if err := t.lease.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	t.value = value
	t.mu.Unlock()
	err := t.write(ctx)
	if err != nil {
		select {
		case t.again <- struct{}{}:
		default:
		}
	}
	return err
}

// Resign releases the lease, and returns why it had ended before.
func (t *Term) Resign() error {
	defer t.resign.Do(func() { close(t.resigned) })
	return t.lease.Release()
}

// record returns the record of t. The caller holds t.writing.
func (t *Term) record() protocol.Term {
	t.mu.Lock()
	defer t.mu.Unlock()
	return protocol.Term{Owner: t.lease.Owner(), Token: t.lease.Token(), Doubts: t.doubts, Value: t.value}
}

// confirm repeats write until Redis has answered, or the lease's context ends.
func (t *Term) confirm(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := t.write(ctx)
		if err == nil || errors.Is(err, failure.ErrLost) || !transport.Passing(err) {
			return err
		}
		timer := time.NewTimer(t.e.c.Backoff(failures))
		select {
		case <-timer.C:
		case <-t.lease.Context().Done():
			timer.Stop()
			if err := t.lease.Err(); err != nil {
				return err
			}
			return failure.Ended(t.lease.Context())
		}
	}
}

// write writes to Redis that the holder leads, and with which value.
func (t *Term) write(ctx context.Context) error {
	c := &t.e.c
	return transport.Refused(transport.Within(ctx, c.Net, func() error {
		t.writing.Lock() // so that the later of two values stays
		defer t.writing.Unlock()
		if err := t.lease.Err(); err != nil {
			return err
		}
		resends := c.Net.Resent()
		written, err := c.Net.Run(c.Wire.Lead(t.e.key, t.record(), leaderKeep)).Int()
		if transport.Unknown(err) || c.Net.Resent() != resends {
			t.doubts++
		}
		if err == nil && written == 0 {
			err = fmt.Errorf("%w: Redis names another leader", failure.ErrLost)
		}
		return err
	}))
}

// keep writes the record again and again while the lease lasts, and removes it then, so that observers see the end.
func (t *Term) keep() {
	pause, ended, confirm := t.e.confirmEvery, t.lease.Context().Done(), t.confirm
	written, timer := monotonic.Now(), time.NewTimer(pause)
	defer timer.Stop()
	for t.lease.Err() == nil {
		write := true
		select {
		case <-t.resigned:
		case <-ended:
			// The lease outlives the context of the caller, who may be ending the work. After that only Resign reports
			// its end.
			ended, write, confirm = nil, false, t.write
			pause = min(pause, time.Second)
		case <-t.again:
		case <-timer.C:
			write = monotonic.Since(written) >= t.e.confirmEvery
		}
		if write && t.lease.Err() == nil {
			if err := confirm(context.Background()); err != nil && t.lease.Err() == nil {
				t.e.c.Logger.Warn("lockgen: a leader could not confirm that it leads; observers may take it for gone", "kind", kindElection, "key", t.e.key, "owner", t.lease.Owner(), "error", err)
			}
			written = monotonic.Now()
		}
		timer.Reset(pause)
	}
	t.remove()
}

// remove removes the record of t, unless the client is closed: then it is left to expire with the lock. It tries three times, since the
// connection may break under the release before it.
func (t *Term) remove() {
	for failures := 1; !errors.Is(t.lease.Err(), failure.ErrClosed); failures++ {
		err := t.erase()
		if err == nil || !transport.Passing(err) || failures == 3 || !t.e.c.Pause(t.e.c.Backoff(failures)) {
			return // the removal only lets observers see the end at once
		}
	}
}

// erase sends the removal once. A late one does nothing to the record of another term.
func (t *Term) erase() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.e.c.Net.Run(t.e.c.Wire.Resign(t.e.key, t.record())).Err()
}
