package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

const (
	// leaderKeep is how long Redis keeps the record of the leader. The record is worthless once the mutex has another
	// holder.
	leaderKeep = 10 * time.Minute

	// confirmEvery is the interval in which the record is written again.
	confirmEvery = leaderKeep / 3
)

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
