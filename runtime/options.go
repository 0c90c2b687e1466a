package lockrt

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// No other negative duration means anything.
const (
	UntilDone time.Duration = math.MinInt64 // as a wait, and the default: for as long as the context lives
	Forever   time.Duration = math.MinInt64 // as [Options.TokenTTL]: without end
)

// The defaults of [Options].
const (
	DefaultWatchdog      = 30 * time.Second
	DefaultOpTimeout     = 3 * time.Second
	DefaultCohort        = 128
	DefaultTokenTTL      = 10 * time.Minute
	DefaultFairWait      = 5 * time.Minute
	DefaultDeadlockAfter = 5 * time.Second
)

// Tracking is the way in which a [Client] learns that another program changed a key that it holds.
type Tracking int

const (
	// TrackingAuto makes the server report the change, within milliseconds: Redis from 6.0 on, and Valkey, over a connection
	// that speaks RESP3, as rueidis does by default. Elsewhere, and in a cluster, it is TrackingOff. It takes one more
	// small request, over the connection for messages, for each lease held for 8ms or longer. Shorter leases cost nothing.
	TrackingAuto Tracking = iota
	// TrackingOff: the next renewal notices the change, and waiting calls ask every 5s.
	TrackingOff
)

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	// Watchdog is how long a lock outlives a crashed holder; while it is held, the Client renews it every third of that time. Defaults to 30s, at
	// least 100ms. Redisson's lockWatchdogTimeout.
	Watchdog time.Duration
	// OpTimeout bounds the calls that run to their end, such as Unlock and Close, and those that ask. Defaults to 3s, at least
	// 1ms.
	OpTimeout time.Duration
	// RedLockTimeout bounds how long a [RedLock] waits for the answer of one server; its first Client decides. Half of the watchdog or lease time, if
	// that is shorter. A TryLock that needs a slow server takes up to that long and keeps the grants of the others meanwhile: set a few times the
	// response time of the slowest server. Defaults to OpTimeout, at least 1ms.
	RedLockTimeout time.Duration
	// Cohort bounds how many goroutines of this process hold a lock in a row, without a round trip, while other processes wait; a row of a [Mutex], or of
	// writers of an [RWMutex], also ends after 10ms, or ten response times of Redis if that is longer. The Client asks Redis for waiting processes
	// every 10ms, or every 500µs in the second after one waited; where Redis is far away, every ten response times, or every one. With 1, it releases
	// the lock in Redis after each holder. Defaults to 128; a [FairMutex] has 64 at most, and a Mutex 16 while Java programs take turns.
	Cohort int
	// Linger is [WithLinger] for each [Mutex]. Defaults to 0, at most 20ms. Redisson has nothing like it.
	Linger time.Duration
	// TokenTTL is how long Redis keeps the counter of a key's fencing tokens after the last grant; tokens rise all the same. Counters that Java made stay
	// for ever. Java's RFencedLock counts from 1 when a counter of a Client is gone: set [Forever] if Java uses the same keys. Defaults to 10m, at
	// least 1s.
	TokenTTL time.Duration
	// FairWait is how long a dead waiter of a [FairMutex] may delay the waiters behind it, once it is next. FairWait must be the same in all
	// processes, also in Java. Defaults to 5m, at least 100ms. Redisson's fairLockWaitTimeout.
	FairWait time.Duration
	// Retry is the pauses before the Client repeats a request that Redis did not answer, or answered with a temporary error, such as that it is
	// loading. [Backoff.Attempts] makes a waiting call fail instead of waiting out an outage; Unlock goes on within OpTimeout in any case. Defaults to
	// ExponentialBackoff(10ms, 250ms). Redisson's retryDelay and retryAttempts.
	Retry Backoff
	// Replicas is how many replicas must confirm a grant, within 1s, before it counts. Without them the Client releases the grant, and the call fails
	// with [ErrReplicas] when its wait is over. A failover to a replica that confirmed loses no lock: only all replicas make that certain, but then a
	// replica that is down prevents all grants. docs/details.md says more. Defaults to 0. Redisson's checkLockSyncedSlaves, which is 1 and on.
	Replicas int
	// Tracking selects how the Client notices the loss of a key that was deleted, flushed, evicted or overwritten. Defaults to [TrackingAuto].
	Tracking Tracking
	// PubSub selects the channels on which a cluster announces releases. Ignored elsewhere. Defaults to [PubSubAuto].
	PubSub PubSub
	// TLS secures the connections of [Open] to a rediss:// url: a client's certificate, a private authority. Without a ServerName a server must have
	// the name by which it is reached. Defaults to the authorities of the system and no certificate.
	TLS *tls.Config
	// StartWithoutServer makes [Open] return at once and connect in the background, for processes that start during an outage. Until then calls behave
	// as in an outage; each call returns a permanent error, such as a wrong password, and Logger gets one line about it. In a cluster PubSub must not
	// be PubSubAuto. Defaults to false: Open fails. Redisson's lazyInitialization.
	StartWithoutServer bool
	// DeadlockAfter is the time after which Logger gets one line about a call that still waits for others, and has neither a deadline nor [WithWait]. The
	// time counts from the beginning of the call, and includes that without an answer from Redis. The line says
	// if this very process holds the lock: then the program probably locks again under an outer context, and waits for ever. After that time, and
	// again after each such time, a call that waits under the context of a lease looks for a deadlock: a circle of calls, in this process and in
	// others, each of which waits for a lock that the next one holds. The Client finds it within twice this time; Logger and Hooks.Deadlock get each
	// of its calls once. The Client follows neither a RedLock, nor a lock of another Client of the process, nor Java. 100 processes send 200 messages a second
	// at most by default. runtime/ACL.md lists the permissions, docs/operating.md says more. Defaults to 5s; negative: never. Redisson has nothing like it.
	DeadlockAfter time.Duration
	// BreakDeadlocks makes the Client end its call in a deadlock, with [ErrDeadlock], if that call has waited for the shortest time of all calls
	// of the circle. All processes choose the same call. If the chosen call is of a Client without the option, no call ends. Defaults to false.
	BreakDeadlocks bool
	// Logger gets errors that no call can return, such as a subscription that fails. Defaults to none.
	Logger *slog.Logger
	// Hooks are called for each event. Defaults to none.
	Hooks Hooks
	// ProfileLabels gives the function of a Do, and a generated method, the pprof label lock=<name>, the name of the lock or else its kind, and the
	// region "lock <name>" of package runtime/trace, also in goroutines that it starts. About 0.3us and 5 allocations a call. Defaults to false.
	ProfileLabels bool
	// Name is the name of the service, for [Client.Snapshot], [Client.Fleet] and lockctl. At most 1024 bytes. Defaults to none.
	Name string
	// Anonymous leaves host and process id out of what other processes learn about the Client.
	Anonymous bool
}

func (o Options) withDefaults() (Options, error) {
	o.Watchdog = orDefault(o.Watchdog, DefaultWatchdog)
	o.OpTimeout = orDefault(o.OpTimeout, DefaultOpTimeout)
	o.RedLockTimeout = orDefault(o.RedLockTimeout, o.OpTimeout)
	o.TokenTTL = orDefault(o.TokenTTL, DefaultTokenTTL)
	o.FairWait = orDefault(o.FairWait, DefaultFairWait)
	o.DeadlockAfter = orDefault(o.DeadlockAfter, DefaultDeadlockAfter)
	if o.Cohort == 0 {
		o.Cohort = DefaultCohort
	}
	if o.Retry == (Backoff{}) {
		o.Retry = ExponentialBackoff(10*time.Millisecond, 250*time.Millisecond)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := core.Backoff(o.Retry).Check(); err != nil {
		return o, fmt.Errorf("lockgen: Options.Retry: %w", err)
	}
	switch {
	case o.Watchdog < leases.MinLease:
		return o, fmt.Errorf("lockgen: Options.Watchdog: %w: %v is shorter than %v", ErrBadOption, o.Watchdog, leases.MinLease)
	case o.OpTimeout < time.Millisecond:
		return o, fmt.Errorf("lockgen: Options.OpTimeout: %w: %v is shorter than 1ms", ErrBadOption, o.OpTimeout)
	case o.RedLockTimeout < time.Millisecond:
		return o, fmt.Errorf("lockgen: Options.RedLockTimeout: %w: %v is shorter than 1ms", ErrBadOption, o.RedLockTimeout)
	case o.TokenTTL < time.Second && o.TokenTTL != Forever:
		return o, fmt.Errorf("lockgen: Options.TokenTTL: %w: %v is shorter than 1s", ErrBadOption, o.TokenTTL)
	case o.FairWait < leases.MinLease:
		return o, fmt.Errorf("lockgen: Options.FairWait: %w: %v is shorter than %v", ErrBadOption, o.FairWait, leases.MinLease)
	case o.Tracking != TrackingAuto && o.Tracking != TrackingOff:
		return o, fmt.Errorf("lockgen: Options.Tracking: %w: %d is neither TrackingAuto nor TrackingOff", ErrBadOption, o.Tracking)
	case o.Replicas < 0:
		return o, fmt.Errorf("lockgen: Options.Replicas: %w: %d is negative", ErrBadOption, o.Replicas)
	case o.PubSub < PubSubAuto || o.PubSub > PubSubBoth:
		return o, fmt.Errorf("lockgen: Options.PubSub: %w: %d is none of the constants", ErrBadOption, o.PubSub)
	case len(o.Name) > protocol.MaxKey:
		return o, fmt.Errorf("lockgen: Options.Name: %w: %d bytes are more than %d", ErrBadOption, len(o.Name), protocol.MaxKey)
	case leases.CheckLinger(o.Linger) != nil:
		return o, fmt.Errorf("lockgen: Options.Linger: %w", leases.CheckLinger(o.Linger))
	case o.Cohort < 0:
		return o, fmt.Errorf("lockgen: Options.Cohort: %w: %d is negative", ErrBadOption, o.Cohort)
	}
	return o, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// settings returns those of the options that locks depend on.
func (o Options) settings() core.Settings {
	return core.Settings{
		Watchdog: o.Watchdog, OpTimeout: o.OpTimeout, RedLockTimeout: o.RedLockTimeout, Cohort: o.Cohort, Linger: o.Linger, TokenTTL: o.TokenTTL,
		FairWait: o.FairWait, Retry: core.Backoff(o.Retry), Replicas: o.Replicas, Tracks: o.Tracking != TrackingOff, DeadlockAfter: o.DeadlockAfter,
		BreakDeadlocks: o.BreakDeadlocks, Logger: o.Logger, Hooks: o.Hooks, ProfileLabels: o.ProfileLabels, Name: o.Name, Anonymous: o.Anonymous,
	}
}

// A LockOption adjusts a lock, as an argument of the method of the [Client] that makes it, or of one call. The option
// of the call wins. If an option is given twice in one place, the last one counts; [WithLease] and [WithWatchdog] undo each other. A nil
// option, an unusable option, and an option that means nothing for the kind are [ErrBadOption]: a
// [Semaphore] and a [CountDownLatch] take no lease, max hold or token, permits and readers take no token.
type LockOption interface{ leases.Option }

// optionsOf returns opts for package locks.
func optionsOf(opts []LockOption) []leases.Option { return each[leases.Option](opts) }

// optionsFrom returns options of package locks.
func optionsFrom(opts []leases.Option) []LockOption { return each[LockOption](opts) }

// each returns opts as options of another type, and allocates nothing for none.
func each[To, From leases.Option](opts []From) []To {
	if len(opts) == 0 {
		return nil
	}
	all := make([]To, len(opts))
	for i, o := range opts {
		all[i], _ = any(o).(To) // or nil, which is an error of the call
	}
	return all
}

// WithWait bounds the wait: after d the call fails with [ErrNotAcquired], or with [ErrUnavailable] if Redis does not
// answer within one more second, of a RedLock within [Options.RedLockTimeout]. 0 tries once, [UntilDone] is no bound. Another negative d is [ErrBadOption], and so is
// any d as an option of a call that tries once. The timeout of a context would end the lease's context, too. Redisson's waitTime.
func WithWait(d time.Duration) LockOption { return leases.WithWait(d) }

// WithLease sets a fixed lease, at least 100ms, that is not renewed: the lock is free d after the grant, and the
// lease's context ends before that. Entering again makes the lease live for d from then on, in a round trip if it
// would end before; a renewed one stays renewed. Redisson's leaseTime.
func WithLease(d time.Duration) LockOption { return leases.WithLease(d) }

// WithWatchdog overrides [Options.Watchdog]: the Client renews the lock while it is held; the lock outlives a crashed
// holder by at most d. At least 100ms.
func WithWatchdog(d time.Duration) LockOption { return leases.WithWatchdog(d) }

// WithMaxHold stops the renewal d after the grant, so that a holder that never unlocks loses the lease at most one watchdog time later. Fixed
// leases do not change. A call that enters a grant again has the limit of that grant: its own WithMaxHold has no effect.
func WithMaxHold(d time.Duration) LockOption { return leases.WithMaxHold(d) }

// WithLinger leaves the key of a [Mutex] with the Client for d after Unlock, at most 20ms. The next call of the Client on
// the same terms has it without a request, and with a fencing token of its own. The Client gives the key back when d is
// over, when another process waits for it, and at Close and Shutdown. Java waits meanwhile, and Redis refuses the TryLock of
// another process; so Unlock gives a reused key back once Redis granted it 10ms ago. Fixed and extended leases
// do not linger, and no key lingers with a Cohort of 1, or while the Client has no subscription. 0 turns [Options.Linger] off. Other kinds of
// locks refuse all but 0; an [Election] and a [Schedule] never linger, whatever d is.
func WithLinger(d time.Duration) LockOption { return leases.WithLinger(d) }

// WithFencing gives the lease a fencing token, see [Lease.Token]. Redisson's RFencedLock, which uses the same
// counter.
func WithFencing() LockOption { return leases.WithFencing() }

// WithName names a lock for operators and metrics: "orders.Service.Pay". The name is not part of the key. At most 1024 bytes;
// use few names for many keys. Generated code gives the name of its method.
func WithName(name string) LockOption { return leases.WithName(name) }

// PubSub selects the channels on which the programs that share a cluster announce releases: plain ones reach every
// server, sharded ones, of Redis and Valkey from 7.0 on, stay with the servers of one slot. It must be the same in all
// programs, and Java's shardedSubscriptionMode. A program on the wrong kind still gets every lock, but only when its timers end.
type PubSub int

const (
	// PubSubAuto is sharded if the servers have it, as Redisson does by default from 3.28.0 on. [New] asks, within [Options.OpTimeout].
	PubSubAuto PubSub = iota
	// PubSubSharded is Redisson's ON.
	PubSubSharded
	// PubSubPlain is Redisson's OFF, and its behaviour before 3.22.0.
	PubSubPlain
	// PubSubBoth uses both kinds, for as long as not all programs use the same.
	PubSubBoth
)

// ofConnections returns those of the options that connections depend on.
func (o Options) ofConnections() connect.Options {
	channels := map[PubSub]*transport.Channels{
		PubSubSharded: new(transport.ShardedChannels), PubSubPlain: new(transport.PlainChannels), PubSubBoth: new(transport.BothChannels),
	}
	return connect.Options{
		TLS: o.TLS, Channels: channels[o.PubSub], Watchdog: o.Watchdog, OpTimeout: o.OpTimeout, Retry: core.Backoff(o.Retry).Pause,
		Host: fleet.Host(), Anonymous: o.Anonymous, Late: o.StartWithoutServer, Logger: o.Logger,
	}
}
