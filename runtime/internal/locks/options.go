package locks

import (
	"fmt"
	"math"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// UntilDone, as a wait, is no bound.
const UntilDone time.Duration = math.MinInt64

// MinLease is the shortest lease that can be renewed in time over a network. It also keeps
// a duration below a millisecond from becoming 0, which would delete a key.
const MinLease = 100 * time.Millisecond

// A LockOption adjusts a lock, or one call.
type LockOption interface{ applyLock(*lockConfig) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }

// WithWait sets the wait, which configure checks.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.wait = d
		c.said |= saidWait
	})
}

// WithLease undoes WithWatchdog.
func WithLease(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.TTL, c.Renew = d, false
		c.said |= saidLease
	})
}

// WithWatchdog undoes WithLease.
func WithWatchdog(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.TTL, c.Renew = d, true
		c.said |= saidLease
	})
}

func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.maxHold, c.limited = d, true })
}

func WithLinger(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.linger = d
		c.said |= saidLinger
	})
}

// WithoutFencing undoes WithFencing.
func WithoutFencing() LockOption {
	return lockOption(func(c *lockConfig) { c.Fenced = false })
}

func WithFencing() LockOption {
	return lockOption(func(c *lockConfig) { c.Fenced = true })
}

func WithName(name string) LockOption { return nameOption{engine.NewLabel(name, "")} }

// A nameOption is an option that can be read before the others are applied.
type nameOption struct{ label *engine.Label }

func (n nameOption) applyLock(c *lockConfig) {
	if template := c.label.Template(); template != "" {
		c.label = engine.NewLabel(n.label.Name(), template)
	} else {
		c.label = n.label
	}
}

// A labelOption is the label of a lock in generated code: the name of the method, and the template of its key.
type labelOption struct{ label *engine.Label }

func (l labelOption) applyLock(c *lockConfig) { c.label = l.label }

// labelOf returns the label in the options of a lock and of one call.
func labelOf(base, call []LockOption) *engine.Label {
	var cfg lockConfig
	for _, opts := range [...][]LockOption{base, call} {
		for _, o := range opts {
			switch o.(type) {
			case nameOption, labelOption:
				o.applyLock(&cfg)
			}
		}
	}
	return cfg.label
}

// lockConfig has the settings of one call of Lock.
type lockConfig struct {
	wait    time.Duration // UntilDone, 0 to try once, or a bound
	maxHold time.Duration // if limited
	limited bool
	linger  time.Duration   // WithLinger, or 0
	backoff Backoff         // if quiet
	label   *engine.Label   // WithName, and the template of its key in generated code
	follows bool            // see waiter
	part    waitingPart     // reports that the call waits of which this one is a part; nil if it is none
	yields  <-chan struct{} // closed when the call must stop waiting, so that another one goes on in its place; or nil
	said    said            // the given options
	bad     error           // why one of them is unusable
	engine.Terms
}

// said records which options were given.
type said uint8

const (
	saidWait  said = 1 << iota
	saidLease      // or a watchdog
	saidLinger
)

// apply applies options in their order.
func (cfg *lockConfig) apply(opts []LockOption) {
	for _, o := range opts {
		if o == nil {
			cfg.bad = errNoOption
			continue
		}
		o.applyLock(cfg)
	}
}

// Once is the option that TryLock, TryAcquire and similar calls add. It overrides a wait among the options of the
// primitive; a wait among the options of the call is an error.
var Once LockOption = lockOption(func(c *lockConfig) {
	if c.said&saidWait != 0 && c.bad == nil {
		c.bad = fmt.Errorf("%w: WithWait means nothing for what tries once", failure.ErrBadOption)
	}
	c.wait = 0
})

// meaningless returns the error of an option that means nothing for a lock of that kind, or nil.
func (cfg *lockConfig) meaningless(kind string) error {
	if cfg.said&saidLinger != 0 && cfg.linger > 0 && lingerless[kind] != "" {
		return fmt.Errorf("%w: WithLinger means nothing for %s", failure.ErrBadOption, lingerless[kind])
	}
	var name string
	switch counts := kind == kindSemaphore || kind == kindLatch; {
	case counts && cfg.said&saidLease != 0:
		name = "WithLease or WithWatchdog"
	case counts && cfg.limited:
		name = "WithMaxHold"
	case cfg.Fenced && (counts || kind == kindPermit || kind == kindRead):
		name = "WithFencing"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s means nothing for %s", failure.ErrBadOption, name, map[string]string{
		kindSemaphore: "a semaphore, whose permits have no lease and no fencing token", kindLatch: "a latch, which nobody holds",
		kindPermit: "a permit, which has no fencing token", kindRead: "a reader, which has no fencing token",
	}[kind])
}

func configure(c *clientCore, base, call []LockOption) (lockConfig, error) {
	if c.made() == nil {
		return lockConfig{}, errNoClient
	}
	if len(base)+len(call) == 0 {
		return lockConfig{wait: UntilDone, linger: c.opts.Linger, Terms: engine.Terms{TTL: c.opts.Watchdog, Renew: true}}, nil
	}
	cfg := lockConfig{wait: UntilDone, linger: c.opts.Linger, Terms: engine.Terms{TTL: c.opts.Watchdog, Renew: true}}
	cfg.apply(base)
	made := cfg.said
	cfg.said = 0
	cfg.apply(call)
	cfg.said |= made
	if cfg.bad != nil {
		return cfg, cfg.bad
	}
	if cfg.Polling {
		if err := cfg.backoff.Check(); err != nil {
			return cfg, err
		}
	}
	switch {
	case cfg.wait < 0 && cfg.wait != UntilDone:
		return cfg, fmt.Errorf("%w: a wait of %v is negative", failure.ErrBadOption, cfg.wait)
	case len(cfg.label.Name()) > protocol.MaxKey:
		return cfg, fmt.Errorf("%w: a name of %d bytes is longer than %d", failure.ErrBadOption, len(cfg.label.Name()), protocol.MaxKey)
	case cfg.said&saidLinger != 0 && CheckLinger(cfg.linger) != nil:
		return cfg, CheckLinger(cfg.linger)
	case cfg.limited && cfg.maxHold <= 0:
		return cfg, fmt.Errorf("%w: a maximal hold of %v is no time", failure.ErrBadOption, cfg.maxHold)
	case cfg.TTL < MinLease:
		name := "lease"
		if cfg.Renew {
			name = "watchdog"
		}
		return cfg, tooShort(name, cfg.TTL)
	case cfg.follows: // a part of a RedLock
		cfg.linger = 0
	}
	return cfg, nil
}

func tooShort(name string, d time.Duration) error {
	return fmt.Errorf("%w: a %s of %v is shorter than %v", failure.ErrBadOption, name, d, MinLease)
}

func WithBackoff(b Backoff) LockOption {
	return lockOption(func(c *lockConfig) { c.backoff, c.Polling = b, true })
}

// mostLinger is the longest time for which a key lingers.
const mostLinger = 20 * time.Millisecond

// CheckLinger returns why a key cannot linger for d, or nil.
func CheckLinger(d time.Duration) error {
	if 0 <= d && d <= mostLinger {
		return nil
	}
	return fmt.Errorf("%w: the linger time %v is not between 0 and %v", failure.ErrBadOption, d, mostLinger)
}

// lingerless are the kinds of locks whose keys do not linger, with the reasons.
var lingerless = map[string]string{
	kindFair:      "a fair mutex, which goes to the next one in its order at each unlock",
	kindWrite:     "a read-write lock, which a process that does not write must not keep from the readers of others",
	kindRead:      "a read-write lock, which a process that does not read must not keep from the writers of others",
	kindRedLock:   "a red lock, whose servers do not report that another process wants it",
	kindSemaphore: "a semaphore, which counts in Redis",
	kindPermit:    "a permit, which another process can take as soon as it is released",
	kindLatch:     "a latch, which nobody holds",
}
