package lockrt

import (
	"context"
	"crypto/rand"
	hexes "encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// resize changes the number of permits of a semaphore of either kind.
func resize(ctx context.Context, c *Client, kind, key string, delta int) (bool, error) {
	if err := enough(max(delta, -delta), 0); err != nil {
		return false, &Error{Op: "resize", Key: key, Err: err}
	}
	return addPermits(ctx, c, "resize", kind, key, delta, protocol.ReportMissing, false)
}

// counted returns the commands of a semaphore of either kind.
func (c *Client) counted(kind, key string) protocol.Semaphore {
	if kind == kindPermit {
		return c.wire.PermitSemaphore(key).Semaphore
	}
	return c.wire.Semaphore(key)
}

// addPermits adds permits to a semaphore of either kind, and reports whether it did, or whether the semaphore existed.
func addPermits(ctx context.Context, c *Client, op, kind, key string, n int, missing protocol.Missing, anyway bool) (bool, error) {
	done, err := c.change(ctx, op, kind, key, anyway, func(ctx context.Context, ct *counter) (int64, error) {
		permits := c.counted(kind, key)
		return ct.change(ctx, anyway, func(r protocol.Request) protocol.Command { return permits.Add(r, n, missing) })
	})
	return done == 1, err
}

// trySetPermits creates a semaphore of either kind.
func trySetPermits(ctx context.Context, c *Client, kind, key string, n int, ttl time.Duration) (bool, error) {
	err := enough(n, 0)
	if err == nil && ttl != 0 && ttl < minLease {
		err = tooShort("time to live", ttl)
	}
	if err != nil {
		return false, &Error{Op: "set permits", Key: key, Err: err}
	}
	done, err := c.change(ctx, "set permits", kind, key, false, func(ctx context.Context, ct *counter) (int64, error) {
		permits := c.counted(kind, key)
		return ct.change(ctx, false, func(r protocol.Request) protocol.Command { return permits.Create(r, n, ttl) })
	})
	return done == 1, err
}

// semaphoreCounter is the counting of a Semaphore.
type semaphoreCounter struct{ *counter }

func (s semaphoreCounter) channel() string { return protocol.CountChannel(s.key) }

// hear has the next request ask for as many waiters as there are permits.
func (s semaphoreCounter) hear(payload string) {
	if n, err := strconv.Atoi(payload); err == nil {
		s.Widen(n)
	}
}

func (s semaphoreCounter) Send(b *countBatch, number, oldest uint64, wanted bool) countAnswer {
	var grants func(int64) bool // nil: the permits are released
	var wants []int
	if wanted {
		grants = takesSome
		for _, p := range b.Parts {
			wants = append(wants, p.Demand.N)
		}
	}
	permits := s.c.wire.Semaphore(s.key)
	granted, err := inTime(s.c.net.RunRoundInTime(permits.Acquire(roundOf(b, number, oldest), wants), grants).Int())
	return countAnswer{Granted: int(granted), TTL: pollCounted, Err: err}
}

func (s semaphoreCounter) Undo(_ *waiter, d engine.Demand) {
	permits := s.c.wire.Semaphore(s.key)
	_, err := s.change(context.Background(), true, func(r protocol.Request) protocol.Command {
		return permits.Add(r, d.N, protocol.LeaveMissing)
	})
	if err != nil {
		s.c.opts.Logger.Warn("lockgen: permits could not be given back", "kind", kindSemaphore, "key", s.key, "permits", d.N, "error", err)
	}
}

// permitCounter is the counting of a PermitSemaphore.
type permitCounter struct{ semaphoreCounter }

func (s permitCounter) Send(b *countBatch, number, oldest uint64, wanted bool) countAnswer {
	var grants func(int64) bool // nil: the permits are released
	var wants []protocol.Permits
	if wanted {
		grants = takesSome
		for _, p := range b.Parts {
			wants = append(wants, protocol.Permits{IDs: p.Demand.IDs, Lease: p.Waiter.Terms.TTL})
		}
	}
	var reply protocol.PermitVerdict
	permits := s.c.wire.PermitSemaphore(s.key)
	numbers, err := s.c.net.RunRoundInTime(permits.AcquirePermits(roundOf(b, number, oldest), wants), grants).Ints()
	if err == nil {
		reply, err = protocol.ReadPermits(numbers)
	}
	if _, err = inTime(reply.Served, err); err != nil {
		return countAnswer{Err: err}
	}
	next := pollCounted
	if reply.Next >= 0 {
		next = min(next, reply.Next)
	}
	return countAnswer{Granted: int(reply.Served), TTL: next}
}

func (s permitCounter) Grant(w *waiter, sent time.Time) bool {
	d := w.For.demand
	if !time.Now().Before(sent.Add(w.Terms.TTL - watchdog.Margin(w.Terms.TTL))) {
		d.IDs = newIDs(s.c, d.N) // the permits of the old ids are released
		return false
	}
	p := d.permit
	p.counter, p.ids, p.began, p.name = s.counter, d.IDs, monotonic.Now(), w.Call.Name // no other goroutine has it yet
	p.lease = watchdog.Lease{
		Holding: permitHolding{p},
		TTL:     w.Terms.TTL,
		Renew:   w.Terms.Renew,
		// Other programs acquire and release all the time, so the key is not worth watching.
		Unwatched: true,
	}
	p.guard = &p.lease
	s.permits[p] = struct{}{}
	s.stay()
	s.c.held(1)
	if !w.Terms.Polling {
		s.c.hearFor(s.key) // to learn that the server may have lost it
	}
	s.c.watchdog.Start(p.guard, sent, w.Terms.TTL)
	if w.Limit > 0 {
		s.c.watchdog.Limit(p.guard, p.began.Add(w.Limit).Std())
	}
	return true
}

func (s permitCounter) Undo(w *waiter, d engine.Demand) {
	p := w.For.demand.permit
	s.mu.Lock()
	reached := p.counter != nil && p.ids == d.IDs // the grant reached the caller
	s.mu.Unlock()
	if reached {
		_ = p.release()
		return
	}
	_, _, _ = s.giveBack(d.IDs)
}

// giveBack releases permits until Redis has answered. It returns how many had not expired, and whether an earlier try, whose
// reply was lost, may have released them.
func (ct *counter) giveBack(ids string) (valid int64, sent bool, err error) {
	var tries bool // used by the goroutine that sends, until it has the answer
	permits := ct.c.wire.PermitSemaphore(ct.key)
	valid, err = ct.insist(context.Background(), true, func() (int64, error) {
		reply, again := ct.c.net.RunInTime(nil, permits.Release(ids))
		valid, err := reply.Int()
		tries = tries || again || transport.Unknown(err)
		return valid, err
	})
	if err != nil {
		return 0, false, err
	}
	return valid, tries, nil
}

// releaseAll releases permits of any process: all of them, or none if one is gone.
func (ct *counter) releaseAll(ctx context.Context, raw string) (int64, error) {
	touched := ct.holding(raw)
	for _, p := range touched {
		p.releasing.Add(1)
	}
	defer func() {
		for _, p := range touched {
			p.releasing.Add(-1)
		}
	}()
	permits := ct.c.wire.PermitSemaphore(ct.key)
	valid, err := ct.change(ctx, true, func(r protocol.Request) protocol.Command { return permits.ReleaseAll(r, raw) })
	if err == nil && valid == 0 {
		err = fmt.Errorf("%w: not all of the permits are there any more; none was given back", ErrLost)
	}
	if err == nil {
		ct.took(touched, raw)
	}
	return valid, err
}

// holding returns the permits of this process that have some of the ids.
func (ct *counter) holding(ids string) []*Permit {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	var some []*Permit
	for p := range ct.permits {
		if len(without(p.ids, ids)) < len(p.ids) {
			some = append(some, p)
		}
	}
	return some
}

// took removes released ids from permits of this process, and ends those that have no others.
func (ct *counter) took(from []*Permit, ids string) {
	for _, p := range from {
		ct.mu.Lock()
		left := without(p.ids, ids)
		if left != "" {
			p.ids = left
		}
		ct.mu.Unlock()
		if left == "" {
			ct.c.watchdog.Lose(p.guard, watchdog.ErrRefused)
		}
	}
}

// without returns the ids that are not among some.
func without(ids, some string) string {
	gone := map[string]bool{}
	for id := range slices.Chunk([]byte(some), idLength) {
		gone[string(id)] = true
	}
	var left []byte
	for id := range slices.Chunk([]byte(ids), idLength) {
		if !gone[string(id)] {
			left = append(left, id...)
		}
	}
	return string(left)
}

// idLength is the length of a permit's id in Redis, in bytes.
const idLength = 16

// hintLength is how many bytes of its client's id the id of a permit begins with: they tell which process holds it.
const hintLength = 6

// newIDs returns new ids for n permits of c.
func newIDs(c *Client, n int) string {
	raw := make([]byte, n*idLength)
	_, _ = rand.Read(raw) // never fails: it ends the process instead
	hint, err := hexes.DecodeString(strings.ReplaceAll(c.ID(), "-", ""))
	for at := 0; err == nil && at < len(raw); at += idLength {
		copy(raw[at:at+hintLength], hint)
	}
	return string(raw)
}

// rawIDs returns ids in the form of Redis, each once.
func rawIDs(ids []string) (string, error) {
	var raw []string
	for _, id := range ids {
		b, err := hexes.DecodeString(id)
		if err != nil || len(b) != idLength {
			return "", fmt.Errorf("%w: the permit id %q is not 32 hexadecimal digits", ErrBadOption, id)
		}
		raw = append(raw, string(b))
	}
	slices.Sort(raw)
	return strings.Join(slices.Compact(raw), ""), nil
}
