package lockrt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/deadlock"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A heldError is the error of a context that ended while another holder had the lock. It matches only what that matches.
type heldError struct{ err error }

func (e *heldError) Error() string { return e.err.Error() + "; somebody else had it" }

func (e *heldError) Unwrap() error { return e.err }

// byOthers reports whether a call failed with err because another holder had the lock.
func byOthers(err error) bool {
	var held *heldError
	return errors.Is(err, ErrNotAcquired) || errors.As(err, &held)
}

// holderOf returns the holder of a lock that a call did not get because of err, or nil if it is unknown. b is what the
// call has learned of others.
func (c *Client) holderOf(kind, key string, b *blockage, err error) *Holder {
	if c == nil || c.rc == nil || !byOthers(err) {
		return nil
	}
	switch kind {
	case kindMutex, kindFair, kindWrite, kindRead:
	default:
		return nil // there is no one holder
	}
	if h := c.ownHolder(kind, key); h != nil {
		return h
	}
	if h := b.holder(kind, key); h != nil {
		return h
	}
	return c.deadlocks.holder(kind, key)
}

// ownHolder returns the call of this Client that holds a lock, or nil. For a call that reads, that is one that writes.
func (c *Client) ownHolder(kind, key string) *Holder {
	held := c.grantsOf(key)
	i := slices.IndexFunc(held, func(g *grantCore) bool {
		of := g.guard.Kind()
		return of == kind && of != kindRead || of == kindWrite && kind == kindRead || of == kindRead && kind == kindWrite
	})
	if i < 0 {
		return nil
	}
	g := held[i]
	since := g.heldSince()
	if since.IsZero() {
		return nil // for a moment between two holders
	}
	return &Holder{Own: true, Process: c.Process(), Owner: g.guard.Owner(), Since: since.Std(), Seen: now()}
}

// heldSince returns when the present holder got the grant, or 0 if there is none.
func (g *grantCore) heldSince() (first monotonic.Time) {
	g.on.mu.Lock()
	defer g.on.mu.Unlock()
	for l := range g.leases.all {
		if first.IsZero() || l.began.Before(first) {
			first = l.began
		}
	}
	return first
}

// foundHolders are what the client has learned of the holders of a key.
type foundHolders struct {
	traces []string
	holder *Holder // one of them, of another process; nil if none is known
	reads  bool    // it holds the key for reading
}

// blocking returns the holder that keeps a call of that kind from getting the lock, or nil. A reader is kept from it by a
// waiting writer, not by other readers.
func (f *foundHolders) blocking(kind string) *Holder {
	if f == nil || f.holder == nil || f.reads && kind == kindRead {
		return nil
	}
	h := *f.holder
	return &h
}

// holder returns the holder of a lock that the call has learned of, or nil.
func (b *blockage) holder(kind, key string) *Holder {
	if b == nil {
		return nil
	}
	if of := b.known.Load(); of != nil && of.key == key {
		return of.blocking(kind)
	}
	return nil
}

// knows adds the holder that the call as a whole has learned of to the error of the member that it did not get.
func (b *blockage) knows(err error) {
	of := (*Error)(nil)
	if b == nil || !errors.As(err, &of) || of.Holder != nil && (of.Holder.Own || !of.Holder.Since.IsZero()) || !byOthers(of.Err) {
		return
	}
	if h := b.holder(b.kind, of.Key); h != nil {
		of.Holder = h
	}
}

// endedAt returns the error of a call for several locks whose context has ended, when err was that of one of them.
func endedAt(ctx context.Context, whole string, err error) error {
	of := (*Error)(nil)
	if !byOthers(err) || !errors.As(err, &of) {
		return &Error{Op: "lock", Key: whole, Err: endedBy(ctx, err)}
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return &Error{Op: "lock", Key: of.Key, Holder: of.Holder, Err: endedBy(ctx, err)}
}

// holderAmong returns a holder of another process among those of a key in Redis, or nil, and leaves out the processes for
// which gone is true.
func (c *Client) holderAmong(all []deadlock.Holder, gone func(process string) bool) *Holder {
	for _, h := range all {
		if h.Process == c.wire.UUID || gone(h.Process) {
			continue
		}
		owner, _ := protocol.WriterOf(h.Owner)
		return &Holder{Process: Process{ID: h.Process}, Owner: owner, Seen: now()}
	}
	return nil
}

// saw keeps what a look for deadlocks has found about the holder of a key.
func (d *deadlocks) saw(key string, found foundHolders) {
	if found.holder == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string]foundHolders{}
	}
	maps.DeleteFunc(d.seen, func(_ string, of foundHolders) bool { return time.Since(of.holder.Seen) > 2*d.interval() })
	d.seen[key] = found
}

// holder returns the holder of a lock that the last looks for deadlocks have found, or nil.
func (d *deadlocks) holder(kind, key string) *Holder {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.seen[key]
	if !ok || time.Since(found.holder.Seen) > 2*d.interval() {
		return nil
	}
	return found.blocking(kind)
}

// isRead reports whether the fields of a lock are those of readers.
func isRead(fields []string) bool {
	i := slices.Index(fields, "mode")
	return i >= 0 && i+1 < len(fields) && fields[i+1] == kindRead
}
