package fleet

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Net carries what processes say to each other, and reads what Redis has of other processes. Package transport has one. Its methods
// block for a bounded time.
type Net interface {
	// Perform sends a command, and returns its error.
	Perform(cmd protocol.Command) error
	// Publish publishes each text on the channel in the same place, all at once, and returns the places of those that certainly no
	// process hears.
	Publish(channels, texts []string) (unheard []int, err error)
	// Channels returns the channels that have subscribers and match a pattern, in order.
	Channels(pattern string) ([]string, error)
	// Hears waits until the process hears a channel. It reports false if ctx ends before, or stop is closed.
	Hears(ctx context.Context, channel string, stop <-chan struct{}) bool
	// Fields returns the values of fields of a hash, "" for one that it does not have.
	Fields(key string, fields []string) ([]string, error)
	// Owners returns about most fields and values, or ids of permits, of each of the places, and the first error.
	Owners(of []protocol.Owners, most int) ([][]string, error)
	// Refusal returns why a server refuses a request for good, or nil if err is not that.
	Refusal(err error) error
}

// Locks are what the process holds and waits for.
type Locks interface {
	// Leases returns the leases of a key.
	Leases(key string) []*watchdog.Lease
	// EachWaiting calls f for each call that waits for a key, or for any for "", under the lock of what it waits for.
	EachWaiting(key string, f func(c Call))
	// Waiting reports whether there may be such a call.
	Waiting() bool
	// EachAbove calls f for each lease in ctx that has not ended, the innermost first.
	EachAbove(ctx context.Context, f func(l *watchdog.Lease))
}

// Hooked is what hooks get to know a call by.
type Hooked struct {
	Kind           observe.Kind
	Name, Template string // "" without one
}

// A Call is a call that waits.
type Call struct {
	Kind      observe.Kind
	Key, Name string
	Hooked    Hooked // of a part of a MultiLock, the whole call
	Permits   int
	Since     monotonic.Time
	Until     monotonic.Time // when the call gives up, apart from its context; zero for never
	Ctx       context.Context
	Number    *atomic.Uint32            // its number for other processes; 0 as long as it has none
	Waiter    interface{ Break(error) } // ends the call
}

// A Visible holding shows who has it.
type Visible interface{ Show() Shown }

// A Shown holding is one as it was at one moment. Without holds, no call has it: it lingers, or is about to end.
type Shown struct {
	Name    string
	Since   monotonic.Time // when the first of its holders got it
	Holds   int
	Token   int64
	Queued  int // calls of this process that wait for its key
	Lingers bool
	Ctx     context.Context // of its holder
}

// A Config configures a [Member].
type Config struct {
	UUID      string // of the process
	Name      string // of the service
	Anonymous bool   // the process says neither its host nor its id there

	Net      Net
	Locks    Locks
	Watchdog *watchdog.Watchdog
	Hooks    *observe.Hooks
	Later    func(report func(), optional bool) // calls hooks, see package hooks
	Logger   *slog.Logger

	Hear    func()          // has the process listen to its channel
	Spawn   func(f func())  // runs f on a goroutine that ends before the process is closed
	Detach  func(f func())  // runs f on a goroutine that may end later
	Closing <-chan struct{} // closed when the process grants nothing any more

	OpTimeout time.Duration
	Lease     time.Duration                  // that the watchdog gives
	Interval  time.Duration                  // between two looks for deadlocks
	Answers   bool                           // the process looks for no deadlock, and helps others that do
	Break     func(d observe.Deadlock) error // returns the error that ends a call of a deadlock; nil if none is ended
}

// open reports whether the process still grants leases.
func (cfg *Config) open() bool {
	select {
	case <-cfg.Closing:
		return false
	default:
		return true
	}
}

// long returns for how long the process holds or waits before it describes itself.
func (cfg *Config) long() time.Duration { return cfg.Lease / 3 }

func (cfg *Config) channel() string { return protocol.ProcessChannel(cfg.UUID) }

// traceOf returns the trace parent of the span that ctx carries, or "".
func (cfg *Config) traceOf(ctx context.Context) string {
	if hook := cfg.Hooks.TraceParent; hook != nil && ctx != nil {
		return hook(ctx)
	}
	return ""
}
