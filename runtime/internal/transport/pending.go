package transport

import (
	"maps"
	"sync"
	"time"
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

// none reports whether each request has an answer.
func (p *pending) none() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent) == 0
}

// pendings are the requests of each server. The zero value has none.
type pendings struct {
	mu sync.Mutex
	of map[string]*pending
}

// begin is [pending.begin] for a request to a server.
func (p *pendings) begin(server string, patience time.Duration) (answered func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to(server).begin(patience)
}

// note records a request to a server.
func (p *pendings) note(server string) (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to(server).note()
}

// to returns the requests of a server, for a caller that holds p.mu until it has recorded one. It keeps nothing for other servers without requests
// when there is a new one: servers come and go.
func (p *pendings) to(server string) *pending {
	if p.of[server] == nil {
		if p.of == nil {
			p.of = map[string]*pending{}
		}
		maps.DeleteFunc(p.of, func(_ string, x *pending) bool { return x.none() })
		p.of[server] = &pending{}
	}
	return p.of[server]
}
