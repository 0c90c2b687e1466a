package leases

import (
	"fmt"
	"math"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// UntilDone is the wait of a call without a bound.
const UntilDone time.Duration = math.MinInt64

// MinLease is the shortest lease that can be renewed in time over a network. It also keeps
// a duration below a millisecond from becoming 0, which would delete a key.
const MinLease = 100 * time.Millisecond

// An Option adjusts a lock, or one call. Package lockrt documents the options.
type Option interface{ applyLock(*Config) }

// An OptionFunc is an Option that changes the settings of a call.
type OptionFunc func(*Config)

func (f OptionFunc) applyLock(c *Config) { f(c) }

// WithWait sets the wait, which Configure checks.
func WithWait(d time.Duration) Option {
	return OptionFunc(func(c *Config) {
		c.Wait = d
		c.Said |= SaidWait
	})
}

// WithLease undoes WithWatchdog.
func WithLease(d time.Duration) Option {
	return OptionFunc(func(c *Config) {
		c.TTL, c.Renew = d, false
		c.Said |= saidLease
	})
}

// WithWatchdog undoes WithLease.
func WithWatchdog(d time.Duration) Option {
	return OptionFunc(func(c *Config) {
		c.TTL, c.Renew = d, true
		c.Said |= saidLease
	})
}

// WithMaxHold limits how long a holder has its lease.
func WithMaxHold(d time.Duration) Option {
	return OptionFunc(func(c *Config) { c.MaxHold, c.Limited = d, true })
}

// WithLinger sets for how long a key stays with the process after an Unlock. Configure checks d.
func WithLinger(d time.Duration) Option {
	return OptionFunc(func(c *Config) {
		c.Linger = d
		c.Said |= saidLinger
	})
}

// WithBackoff has a waiting call ask again after pauses, and listen to no messages.
func WithBackoff(b core.Backoff) Option {
	return OptionFunc(func(c *Config) { c.Backoff, c.Polling = b, true })
}

// WithoutFencing undoes WithFencing.
func WithoutFencing() Option {
	return OptionFunc(func(c *Config) { c.Fenced = false })
}

// WithFencing has each grant draw a fencing token.
func WithFencing() Option {
	return OptionFunc(func(c *Config) { c.Fenced = true })
}

// WithName names the lock for hooks, errors and logs.
func WithName(name string) Option { return nameOption{engine.NewLabel(name, "")} }

// A nameOption is an option that can be read before the others are applied.
type nameOption struct{ label *engine.Label }

func (n nameOption) applyLock(c *Config) {
	if template := c.Label.Template(); template != "" {
		c.Label = engine.NewLabel(n.label.Name(), template)
	} else {
		c.Label = n.label
	}
}

// A labelOption is the label of a lock in generated code: the name of the method, and the template of its key.
type labelOption struct{ label *engine.Label }

func (l labelOption) applyLock(c *Config) { c.Label = l.label }

// Label is the option of a lock in generated code: the name of its method, and the template of its key.
func Label(name, template string) Option { return labelOption{engine.NewLabel(name, template)} }

// LabelOf returns the label in the options of a lock and of one call.
func LabelOf(base, call []Option) *engine.Label {
	if len(base)+len(call) == 0 {
		return nil
	}
	var cfg Config
	for _, opts := range [...][]Option{base, call} {
		for _, o := range opts {
			switch o.(type) {
			case nameOption, labelOption:
				o.applyLock(&cfg)
			}
		}
	}
	return cfg.Label
}

// Config has the settings of one call of Lock.
type Config struct {
	Wait    time.Duration // UntilDone, 0 to try once, or a bound
	MaxHold time.Duration // if Limited
	Limited bool
	Linger  time.Duration   // WithLinger, or 0
	Backoff core.Backoff    // if Polling
	Label   *engine.Label   // WithName, and the template of its key in generated code
	Follows bool            // see engine.Waiter
	Part    *Part           // of another call; else nil
	Yields  <-chan struct{} // closed when the call must stop waiting, so that another one goes on in its place; or nil
	Said    said            // the given options
	Bad     error           // why one of them is unusable
	engine.Terms
}

// said records which options were given.
type said uint8

const (
	SaidWait  said = 1 << iota
	saidLease      // or a watchdog
	saidLinger
)

// Apply applies options in their order.
func (cfg *Config) Apply(opts []Option) {
	for _, o := range opts {
		if o == nil {
			cfg.Bad = core.ErrNoOption
			continue
		}
		o.applyLock(cfg)
	}
}

// Once is the option that TryLock, TryAcquire and similar calls add. It overrides a wait among the options of the
// primitive; a wait among the options of the call is an error.
var Once Option = OptionFunc(func(c *Config) {
	if c.Said&SaidWait != 0 && c.Bad == nil {
		c.Bad = fmt.Errorf("%w: WithWait means nothing for what tries once", failure.ErrBadOption)
	}
	c.Wait = 0
})

// Meaningless returns the error of an option that means nothing for a lock of that kind, or nil.
func (cfg *Config) Meaningless(kind string) error {
	if cfg.Said&saidLinger != 0 && cfg.Linger > 0 && lingerless[kind] != "" {
		return fmt.Errorf("%w: WithLinger means nothing for %s", failure.ErrBadOption, lingerless[kind])
	}
	var name string
	switch counts := kind == core.KindSemaphore || kind == core.KindLatch; {
	case counts && cfg.Said&saidLease != 0:
		name = "WithLease or WithWatchdog"
	case counts && cfg.Limited:
		name = "WithMaxHold"
	case cfg.Fenced && (counts || kind == core.KindPermit || kind == core.KindRead):
		name = "WithFencing"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s means nothing for %s", failure.ErrBadOption, name, map[string]string{
		core.KindSemaphore: "a semaphore, whose permits have no lease and no fencing token", core.KindLatch: "a latch, which nobody holds",
		core.KindPermit: "a permit, which has no fencing token", core.KindRead: "a reader, which has no fencing token",
	}[kind])
}

// Configure returns the settings of a call with the options base of its lock and its own options call, or why they are unusable.
func Configure(c *core.Client, base, call []Option) (Config, error) {
	if c.Made() == nil {
		return Config{}, core.ErrNoClient
	}
	if len(base)+len(call) == 0 { // as below, but not on the heap, since no option can keep it
		return Config{Wait: UntilDone, Linger: c.Settings.Linger, Terms: engine.Terms{TTL: c.Settings.Watchdog, Renew: true}}, nil
	}
	cfg := Config{Wait: UntilDone, Linger: c.Settings.Linger, Terms: engine.Terms{TTL: c.Settings.Watchdog, Renew: true}}
	cfg.Apply(base)
	made := cfg.Said
	cfg.Said = 0
	cfg.Apply(call)
	cfg.Said |= made
	if cfg.Bad != nil {
		return cfg, cfg.Bad
	}
	if cfg.Polling {
		if err := cfg.Backoff.Check(); err != nil {
			return cfg, err
		}
	}
	switch {
	case cfg.Wait < 0 && cfg.Wait != UntilDone:
		return cfg, fmt.Errorf("%w: a wait of %v is negative", failure.ErrBadOption, cfg.Wait)
	case len(cfg.Label.Name()) > protocol.MaxKey:
		return cfg, fmt.Errorf("%w: a name of %d bytes is longer than %d", failure.ErrBadOption, len(cfg.Label.Name()), protocol.MaxKey)
	case cfg.Said&saidLinger != 0 && CheckLinger(cfg.Linger) != nil:
		return cfg, CheckLinger(cfg.Linger)
	case cfg.Limited && cfg.MaxHold <= 0:
		return cfg, fmt.Errorf("%w: a maximal hold of %v is no time", failure.ErrBadOption, cfg.MaxHold)
	case cfg.TTL < MinLease:
		name := "lease"
		if cfg.Renew {
			name = "watchdog"
		}
		return cfg, TooShort(name, cfg.TTL)
	case cfg.Follows: // a part of a RedLock
		cfg.Linger = 0
	}
	return cfg, nil
}

// TooShort returns the error of a duration, of something called name, that is shorter than MinLease.
func TooShort(name string, d time.Duration) error {
	return fmt.Errorf("%w: a %s of %v is shorter than %v", failure.ErrBadOption, name, d, MinLease)
}

// MostLinger is the longest time for which a key lingers.
const MostLinger = 20 * time.Millisecond

// CheckLinger returns why a key cannot linger for d, or nil.
func CheckLinger(d time.Duration) error {
	if 0 <= d && d <= MostLinger {
		return nil
	}
	return fmt.Errorf("%w: the linger time %v is not between 0 and %v", failure.ErrBadOption, d, MostLinger)
}

// lingerless are the kinds of locks whose keys do not linger, with the reasons.
var lingerless = map[string]string{
	core.KindFair:      "a fair mutex, which goes to the next one in its order at each unlock",
	core.KindWrite:     "a read-write lock, which a process that does not write must not keep from the readers of others",
	core.KindRead:      "a read-write lock, which a process that does not read must not keep from the writers of others",
	core.KindRedLock:   "a red lock, whose servers do not report that another process wants it",
	core.KindSemaphore: "a semaphore, which counts in Redis",
	core.KindPermit:    "a permit, which another process can take as soon as it is released",
	core.KindLatch:     "a latch, which nobody holds",
}
