package fleet

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A presence writes to Redis which process a client is in, in a hash beside the locks. An operator that finds a lock
// thus learns the host and the process of its holder, even of a killed one, for as long as the lock lasts.
//
// The process writes it with a renewal of a lease that has been held for a third of the watchdog time, and by a timer
// while there is no such renewal: for leases of fixed length, and calls that wait. A process whose locks are all short
// writes nothing.
type presence struct {
	cfg   *Config
	armed atomic.Bool // there is a timer, or the process has no permission

	mu      sync.Mutex // guards the rest
	timer   *time.Timer
	written monotonic.Time // when the last write began
	off     bool           // the process has no permission, or is closed
}

const (
	// introduceEvery is the shortest interval between two writes.
	introduceEvery = 10 * time.Second

	// introduceSpare is how much longer the hash lives than the longest lease: more than the time between two renewals
	// that write it.
	introduceSpare = introduceEvery + 5*time.Second

	// longestLease bounds the life of the hash.
	longestLease = 100 * 365 * 24 * time.Hour
)

// Present records a lock that is held or waited for.
func (p *presence) Present() {
	if p.armed.Load() || !p.armed.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return
	}
	wait := p.cfg.long() + p.cfg.long()/4 // after the renewal that writes it, if there is one
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.look)
		return
	}
	p.timer.Reset(wait)
}

// Renewing describes the process beside a renewal that is about to be sent, if it is time.
func (p *presence) Renewing(leases []*watchdog.Lease) {
	at := monotonic.Now()
	p.mu.Lock()
	due := p.due(at)
	p.mu.Unlock()
	if due && p.held(leases, at) {
		p.introduceSoon(at)
	}
}

// held reports whether one of the leases has been held for long.
func (p *presence) held(leases []*watchdog.Lease, at monotonic.Time) bool {
	return slices.ContainsFunc(leases, func(l *watchdog.Lease) bool { return l.Age(at) >= p.cfg.long() })
}

// due reports whether the last write is long enough ago.
func (p *presence) due(at monotonic.Time) bool {
	return !p.off && (p.written.IsZero() || at.Sub(p.written) >= introduceEvery)
}

// look is the function of the timer. It repeats as long as the process holds or waits for anything.
func (p *presence) look() {
	at := monotonic.Now()
	p.armed.Store(false) // a call that comes from here on arms the timer again
	leases, _ := p.cfg.Watchdog.Leases(0)
	long, waiting := p.held(leases, at), p.cfg.Locks.Waiting()
	if !long && waiting {
		p.cfg.Locks.EachWaiting("", func(c Call) { long = long || at.Sub(c.Since) >= p.cfg.long() })
	}
	p.mu.Lock()
	due, off, since := p.due(at), p.off, at.Sub(p.written)
	switch {
	case off:
		p.armed.Store(true)
	case len(leases) == 0 && !waiting:
	case due || p.written.IsZero():
		p.armed.Store(true)
		p.timer.Reset(max(introduceEvery, p.cfg.long()))
	default:
		p.armed.Store(true)
		p.timer.Reset(max(introduceEvery-since+p.cfg.long()/4, time.Second))
	}
	p.mu.Unlock()
	if long && due {
		p.introduceSoon(at)
	}
}

// introduceSoon describes the process, together with the next requests.
func (p *presence) introduceSoon(at monotonic.Time) {
	p.mu.Lock()
	due := p.due(at)
	if due {
		p.written = at
	}
	p.mu.Unlock()
	if due {
		p.cfg.Detach(p.introduce) // the end of the process does not wait for an answer that nobody needs
	}
}

func (p *presence) introduce() {
	lasts := p.cfg.Lease
	all, _ := p.cfg.Watchdog.Leases(0)
	for _, l := range all {
		lasts = max(lasts, time.Until(l.Ends()))
	}
	err := p.cfg.Net.Perform(protocol.Introduce(p.cfg.UUID, min(lasts, longestLease)+introduceSpare, fieldsOf(p.cfg.Process())))
	if why := p.cfg.Net.Refusal(err); why != nil {
		p.Leave()
		p.cfg.Logger.Warn("lockgen: the name of this process cannot be written, so observers of its locks see an id alone", "process", p.cfg.UUID, "error", why)
	}
}

// Leave ends the descriptions for good.
func (p *presence) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	p.armed.Store(true)
	if p.timer != nil {
		p.timer.Stop()
	}
}
