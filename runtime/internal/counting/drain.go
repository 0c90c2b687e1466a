package counting

import (
	"context"
	"sync"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A drain is a Drain of this process, until the next one begins.
type drain struct {
	ctx  context.Context // ends when the next one begins
	end  context.CancelFunc
	back sync.Mutex // held while what it took is given back
}

// ends ends the release of what d took, and returns when it is settled.
func (d *drain) ends() {
	d.end()
	d.back.Lock()
	defer d.back.Unlock()
}

// Drain takes all free permits of a semaphore, and returns how many. Those that it takes when the caller has left, or has got an error, it gives back,
// until another Drain begins: after that none is to be free.
func (k *Count) Drain(ctx context.Context) (int64, error) {
	permits, mine := k.semaphore(), new(drain)
	mine.ctx, mine.end = context.WithCancel(context.Background())
	mine.back.Lock() // a third Drain waits for the first one, too
	if before := k.drained.Swap(mine); before != nil {
		before.ends() // Redis refuses late copies of its release behind the request of mine, unless an older request of this key is not settled
	}
	mine.back.Unlock()
	n, _, err := k.request(ctx, false, permits.Drain, &engine.Undo{
		Withdraw: func(number, oldest uint64) (int64, error) {
			round := protocol.Round{Request: numbered(number, oldest), Again: true}
			return inTime(k.c.Net.Ask(permits.Acquire(round, nil)).Int())
		},
		Late: func(n int64) {
			if err := k.undrain(mine, int(n)); err != nil {
				k.kept(int(n), err)
			}
		},
	})
	return n, err
}

// undrain gives back what a Drain took for nobody, unless another one has begun, or until it does.
func (k *Count) undrain(d *drain, n int) error {
	d.back.Lock()
	defer d.back.Unlock()
	if n == 0 || d.ctx.Err() != nil {
		return nil
	}
	var said refusal
	permits := k.semaphore()
	add := func(r protocol.Request) protocol.Command { return permits.Add(r, n, protocol.LeaveMissing) }
	_, _, err := k.changes.ChangeUntil(d.ctx, k.c.OpTimeout, k.sending(add, &said))
	return err
}

// putBack gives permits back that nobody wants.
func (k *Count) putBack(n int) {
	if n == 0 {
		return
	}
	if _, err := k.Add(context.Background(), n, protocol.LeaveMissing, true); err != nil {
		k.kept(n, err)
	}
}

// kept says that permits which nobody wants are taken.
func (k *Count) kept(n int, err error) {
	k.c.Logger.Warn("lockgen: permits could not be given back", "kind", k.Kind, "key", k.Name, "permits", n, "error", err)
}
