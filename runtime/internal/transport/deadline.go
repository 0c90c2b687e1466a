package transport

import (
	"context"
	"sync"
	"time"
)

// A deadline is a context that ends at a time. rueidis sets this time on a connection that one caller has, and asks for nothing else: that costs no more
// than a deadline of the connection, while a context that can be cancelled costs a third of the speed. Only two things wait until the context is done: a
// connection that rueidis has pipelined by itself, since it sent a PING over it, and the dialling of a new connection, which has goroutines of its own.
type deadline struct {
	at    time.Time
	mu    sync.Mutex    // guards the rest
	done  chan struct{} // nil until something waits for it
	timer *time.Timer
}

func (d *deadline) Deadline() (at time.Time, ok bool) { return d.at, true }
func (*deadline) Value(any) any                       { return nil }

// Done is called before the request ends, if at all, and perhaps later as well.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		done := make(chan struct{})
		d.done, d.timer = done, time.AfterFunc(time.Until(d.at), func() { close(done) })
	}
	return d.done
}

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if closed(d.done) {
		return context.DeadlineExceeded
	}
	return nil
}

// stop ends the wait for the context, and reports whether there was one: the connection is pipelined, or new. Then goroutines of the dialling
// may ask the context still.
func (d *deadline) stop() (awaited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		return false
	}
	d.timer.Stop()
	return true
}
