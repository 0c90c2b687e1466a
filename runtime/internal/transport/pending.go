package transport

import (
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// pending is the requests over a connection that have no answer yet, and when they were sent. The zero value has none.
type pending struct {
	mu   sync.Mutex
	last uint64
	sent map[uint64]time.Time
}

// begin records a request, unless one has had no answer for longer than patience.
func (p *pending) begin(patience time.Duration) (answered func(), ok bool) {
	if p.late(patience) {
		return nil, false
	}
	return p.note(), true
}

// late reports whether a request has had no answer for longer than patience.
func (p *pending) late(patience time.Duration) bool { return time.Since(p.oldest()) > patience }

// note records a request.
func (p *pending) note() (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = map[uint64]time.Time{}
	}
	p.last++
	n := p.last
	p.sent[n] = time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.sent, n)
	}
}

// oldest returns when the request was sent that has had no answer for longest, or the present.
func (p *pending) oldest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now()
	for _, sent := range p.sent {
		if sent.Before(at) {
			at = sent
		}
	}
	return at
}

// runSoon is run for a command that cannot wait until a mute connection is given up: if such a request has had no answer for
// longer than patience, it goes over another connection.
func (t *Transport) runSoon(cmd protocol.Command, patience time.Duration) rueidis.RedisResult {
	answered, ok := t.renewals.begin(patience)
	if !ok {
		if reply, ok := t.second.run(cmd); ok {
			return reply
		}
		answered = t.renewals.note()
	}
	defer answered()
	return t.run(cmd)
}

// dedicate returns a connection for the caller alone, which closes it, or nil if the client is stopped meanwhile, or
// there is none within limit, if that is more than 0: a client of the user's may be out of connections for as long as
// it likes.
func (t *Transport) dedicate(rc rueidis.Client, limit time.Duration) rueidis.DedicatedClient {
	return t.dedicateUntil(t.cfg.Stopped, rc, limit)
}

// dedicateUntil is dedicate until stopped is closed, if it is not nil.
func (t *Transport) dedicateUntil(stopped <-chan struct{}, rc rueidis.Client, limit time.Duration) rueidis.DedicatedClient {
	got := make(chan rueidis.DedicatedClient)
	over := make(chan struct{})
	defer close(over)
	go func() {
		conn, release := rc.Dedicate()
		select {
		case got <- conn:
		case <-over:
			release()
		}
	}()
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case conn := <-got:
		return conn
	case <-late:
	case <-stopped:
	}
	return nil
}
