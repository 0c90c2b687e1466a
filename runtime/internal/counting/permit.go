package counting

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A Permit is one or more permits that are granted to one call. It ends once.
type Permit struct {
	holder Holder
	of     *Count // nil before the grant
	guard  watchdog.Lease

	granted   int              // how many it was
	missing   protocol.Missing // says whether its release creates a semaphore
	releasing atomic.Int32     // calls under way that release some of it

	// Guarded by the lock of the count.
	ids   string // of its permits
	state permitState
	lost  error // why it was lost, or nil
}

// A Holder is the call that gets a permit.
type Holder interface {
	// Begin tells the holder that it has the permit, and returns what the watchdog renews. It is called under the lock of the count.
	Begin(began monotonic.Time) watchdog.Holding
	// End tells the holder that the permit has ended.
	End(cause error)
	// Ended returns why the permit has ended, or nil.
	Ended() error
}

// A permitState says how far a permit has come.
type permitState uint8

const (
	permitHeld permitState = iota
	permitLost
	permitReleased // by its holder, perhaps after it was lost
)

// NewPermit prepares a permit for a call.
func NewPermit(holder Holder) *Permit { return &Permit{holder: holder} }

// begins gives the permits that d demands to p. The caller holds the lock of k.
func (p *Permit) begins(k *Count, d *engine.Demand, began monotonic.Time, on engine.Terms) {
	p.of, p.ids, p.granted, p.missing = k, d.IDs, d.N, protocol.MissingOf(d.Create) // no other goroutine has it yet
	p.guard = watchdog.Lease{
		Holding: p.holder.Begin(began),
		TTL:     on.TTL,
		Renew:   on.Renew,
		// Other programs acquire and release all the time, so the key is not worth watching.
		Unwatched: true,
	}
	k.permits[p] = struct{}{}
	k.entry.Stay()
	k.c.Held(1)
}

// Granted reports whether p was granted.
func (p *Permit) Granted() bool { return p.of != nil }

// Guard returns what the watchdog renews, or nil before p was granted.
func (p *Permit) Guard() *watchdog.Lease {
	if !p.Granted() {
		return nil
	}
	return &p.guard
}

// Kind returns the kind of the guard of p.
func (p *Permit) Kind() string { return Permits }

// Weight returns how many permits were granted. The watchdog asks for it under its lock.
func (p *Permit) Weight() int { return p.granted }

// Key returns the name of the semaphore.
func (p *Permit) Key() string { return p.of.Name }

// Owner returns the ids of p.
func (p *Permit) Owner() string {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.ids
}

// Size returns how many permits the holder has: none after the end.
func (p *Permit) Size() int {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.state != permitHeld {
		return 0
	}
	return len(p.ids) / protocol.PermitLength
}

// Fewer reports whether this process has released some of the ids, or is about to.
func (p *Permit) Fewer(ids string) bool { return p.releasing.Load() > 0 || p.Owner() != ids }

// Release releases p, and the rest of a lost permit. It returns why p had ended before.
func (p *Permit) Release() error {
	k := p.of
	k.mu.Lock()
	if p.state == permitReleased {
		k.mu.Unlock()
		return failure.ErrReleased
	}
	was, cause, ids := p.state, p.lost, p.ids
	p.state = permitReleased
	delete(k.permits, p)
	k.mu.Unlock()

	if was == permitLost {
		p.holder.End(cause)                                                        // in case the caller that lost it has not ended it yet
		k.c.Later(k.Name, func(k *Count) { _, _, _ = k.giveBack(ids, p.missing) }) // those that have not expired: no caller works under it any more
		return cause
	}
	k.c.Watchdog.Stop(&p.guard)
	p.holder.End(failure.ErrReleased) // before another caller can get it
	valid, sent, err := k.giveBack(ids, p.missing)
	k.c.Held(-1)
	k.entry.Quit()
	switch cause := p.holder.Ended(); {
	case err != nil:
		return err
	case errors.Is(cause, failure.ErrLost):
		return cause // by the clock, before the watchdog could report it
	case valid*protocol.PermitLength < int64(len(ids)) && !sent:
		return failure.Lost(watchdog.ErrRefused)
	}
	return nil
}

// Lost ends a permit that Redis has given to another holder, or may soon. In Redis it stays until it expires, as was
// promised, or is released: its holder may still be at work.
func (p *Permit) Lost(cause error) {
	k := p.of
	k.mu.Lock()
	if p.state != permitHeld {
		k.mu.Unlock()
		return // its release is under way
	}
	p.state, p.lost = permitLost, failure.Lost(cause)
	delete(k.permits, p)
	k.mu.Unlock()
	p.holder.End(p.lost)
	k.c.Held(-1)
	k.entry.Quit()
}

// giveBack releases permits until Redis has answered. It returns how many had not expired, and whether an earlier try, whose
// reply was lost, may have released them.
func (k *Count) giveBack(ids string, missing protocol.Missing) (valid int64, sent bool, err error) {
	var tries bool // used by the goroutine that sends, until it has the answer
	commands := k.c.Wire.PermitSemaphore(k.Name)
	valid, err = k.insist(func() (int64, error) {
		reply, again := k.c.Net.RunInTime(nil, commands.Release(ids, missing))
		valid, err := reply.Int()
		tries = tries || again || transport.Unknown(err)
		return valid, err
	})
	if err != nil {
		return 0, false, err
	}
	return valid, tries, nil
}

// errDoubtful is why a permit is lost that Redis may have given back.
var errDoubtful = fmt.Errorf("%w, or about to be: its release by id has no answer", watchdog.ErrRefused)

// ReleaseAll releases permits of any process: all of them, or none if one is gone. A permit of this process that has these ids and no
// others loses them before the request is sent: it has lost them, too, if one is gone. Others lose theirs when Redis has released them,
// or may have.
func (k *Count) ReleaseAll(ctx context.Context, raw string, missing protocol.Missing) (int64, error) {
	touched := k.holding(raw)
	for _, p := range touched {
		p.releasing.Add(1)
	}
	defer func() {
		for _, p := range touched {
			p.releasing.Add(-1)
		}
	}()
	if len(touched) == 1 && without(touched[0].Owner(), raw) == "" && without(raw, touched[0].Owner()) == "" {
		k.took(touched, raw, watchdog.ErrRefused)
	}
	commands := k.c.Wire.PermitSemaphore(k.Name)
	valid, known, err := k.request(ctx, true, func(r protocol.Request) protocol.Command { return commands.ReleaseAll(r, raw, missing) }, nil)
	switch {
	case known && err == nil && valid == 0:
		err = fmt.Errorf("%w: not all of the permits are there any more; none was given back", failure.ErrLost)
	case known && err == nil:
		k.took(touched, raw, watchdog.ErrRefused)
	case !known:
		k.took(touched, raw, errDoubtful)
	}
	return valid, err
}

// held returns the permits of this process. A nil count has none.
func (k *Count) held(of func(p *Permit) bool) (some []*Permit) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.permits {
		if of(p) {
			some = append(some, p)
		}
	}
	return some
}

func all(*Permit) bool { return true }

// holding returns the permits of this process that have some of the ids.
func (k *Count) holding(ids string) []*Permit {
	return k.held(func(p *Permit) bool { return len(without(p.ids, ids)) < len(p.ids) })
}

// took removes released ids from permits of this process, and ends those that have no others because of cause.
func (k *Count) took(from []*Permit, ids string, cause error) {
	for _, p := range from {
		k.mu.Lock()
		left := without(p.ids, ids)
		if left != "" {
			p.ids = left
		}
		k.mu.Unlock()
		if left == "" {
			k.c.Watchdog.Lose(&p.guard, cause)
		}
	}
}

// Guards returns the leases of the permits of this process.
func (k *Count) Guards() (guards []*watchdog.Lease) {
	for _, p := range k.held(all) {
		guards = append(guards, &p.guard)
	}
	return guards
}

// Ours returns how many permits this process holds.
func (k *Count) Ours() (n int) {
	for _, p := range k.held(all) {
		n += p.Size()
	}
	return n
}

// Close ends the permits of this process, because the client is closed. It sends nothing to Redis.
func (k *Count) Close() {
	for _, p := range k.held(all) {
		p.holder.End(failure.ErrClosed)
	}
}
