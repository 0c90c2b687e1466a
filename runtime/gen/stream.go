package gen

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// The result of a method can need the lock for longer than the call: a sequence until the loop over
// it ends, a closer until it is closed. Then the method lends the Hold to the result.

// Lend lends h to a result of the method, which has to call Close.
func (h *Hold) Lend() *Hold {
	h.lent = true
	return h
}

// Close calls closing, which closes the result that h was lent to, and releases h, also if closing
// panics. It joins the errors. The second call only calls closing. Until Close is called the keys
// stay locked, even after the end of the call's context.
func (h *Hold) Close(closing func() error) (err error) {
	if h.closed.CompareAndSwap(false, true) {
		defer func() { err = lent.AfterWork(h.call, err, h.release()) }()
	}
	return closing()
}

// HoldSeq lends h to seq, if there is one: it is released when the loop over what HoldSeq returns
// ends, also by break or by a panic, or when the context of the call ends before a loop begins.
// After that, and during the loop, the sequence has no elements for other loops; this and errors go
// to [lockrt.Options.Logger] and [lockrt.Hooks.Unreported]. A Hold of no lock leaves seq as it is.
func HoldSeq[V any](h *Hold, seq iter.Seq[V]) iter.Seq[V] {
	if seq == nil || len(h.leases) == 0 {
		return seq
	}
	l := h.lend()
	return func(yield func(V) bool) {
		if err := l.begin(); err != nil {
			l.report(err)
			return
		}
		defer func() { l.report(l.end()) }()
		seq(yield)
	}
}

// HoldSeq2 is [HoldSeq] for pairs. If their second part is an error, an error of the lock is a last
// pair with it.
func HoldSeq2[K, V any](h *Hold, seq iter.Seq2[K, V]) iter.Seq2[K, V] {
	if seq == nil || len(h.leases) == 0 {
		return seq
	}
	l := h.lend()
	return func(yield func(K, V) bool) {
		tell := func(err error) {
			var last V
			if place, ok := any(&last).(*error); ok && err != nil {
				*place = err
				var none K
				yield(none, last)
				return
			}
			l.report(err)
		}
		if err := l.begin(); err != nil {
			tell(err)
			return
		}
		whole := false
		defer func() {
			if !whole {
				l.report(l.end())
			}
		}()
		broken := false
		seq(func(k K, v V) bool {
			broken = !yield(k, v)
			return !broken
		})
		if !broken {
			whole = true
			tell(l.end())
		}
	}
}

// A loan is a Hold that was lent to a sequence.
type loan struct {
	h     *Hold
	begun atomic.Bool // or given up
	keep  func() bool // cancels the wait for the end of the context
}

func (h *Hold) lend() *loan {
	l := &loan{h: h.Lend()}
	l.keep = context.AfterFunc(h.call, func() {
		if l.begun.CompareAndSwap(false, true) {
			l.report(l.end())
		}
	})
	return l
}

// begin returns why no loop may begin, or nil.
func (l *loan) begin() error {
	if l.begun.CompareAndSwap(false, true) {
		l.keep()
		return nil
	}
	if l.h.call.Err() != nil {
		return lent.Explain(l.h.spec.Name, lent.Ended(l.h.call))
	}
	return fmt.Errorf("%s: %w: what it returned can be gone through once, under its lock", l.h.spec.Name, lockrt.ErrReleased)
}

func (l *loan) end() error { return l.h.release() }

// report reports an error that no caller gets.
func (l *loan) report(err error) {
	if h := l.h; err != nil && len(h.leases) > 0 {
		unreportedOf(h.call, h.leases[0], h.spec.Name, h.spec.Template, err)
	}
}
