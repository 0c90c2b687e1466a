package lockrt

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// UntilDone as a wait means: as long as the context lives. It is the default. No other negative duration is a wait.
const UntilDone time.Duration = math.MinInt64

// Forever as [Options.TokenTTL] means: without end. No other negative duration does.
const Forever time.Duration = math.MinInt64

// The defaults of [Options].
const (
	DefaultWatchdog  = 30 * time.Second // Redisson's lockWatchdogTimeout
	DefaultOpTimeout = 3 * time.Second
	DefaultCohort    = 64
	DefaultTokenTTL  = 10 * time.Minute
	DefaultFairWait  = 5 * time.Minute // Redisson's fairLockWaitTimeout
)

// minLease is the shortest lease that can be renewed in time over a network. It also
// keeps a duration below a millisecond from becoming the 0 that deletes a key.
const minLease = 100 * time.Millisecond

// Tracking says how a [Client] learns that somebody changed a key that it holds.
type Tracking int

const (
	// TrackingAuto has the server tell of it, where it can: Redis from 6.0 on, and Valkey,
	// over a connection that speaks RESP3, which is rueidis' default. Elsewhere it is
	// TrackingOff, and so it is in a cluster.
	//
	// It takes one more connection, made when a lease is held for 8ms or a call begins to wait for a lock, and one
	// more small request for each lease that is held that long. Shorter ones cost nothing. A server that is
	// flushed forgets who waits: over that connection those who wait learn of it at once.
	TrackingAuto Tracking = iota

	// TrackingOff leaves it to the next renewal to find out, and to those who wait to ask every 5s.
	TrackingOff
)

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	// Watchdog is how long a lock outlives a holder that crashed. It is renewed every
	// third of it while held. Redisson's lockWatchdogTimeout. Defaults to 30s, at least
	// 100ms.
	Watchdog time.Duration

	// OpTimeout bounds the calls that do not end with the caller's context: unlocking,
	// and waiting for requests under way when the client is closed. Defaults to 3s. What changes a count is sent
	// again for a minute at most, however long this is.
	OpTimeout time.Duration

	// RedLockTimeout bounds how long a [RedLock] waits for the answer of one server; the first of its Clients says so. It is
	// half of the watchdog or lease time if that is shorter. A TryLock that needs a slow server takes as long, and
	// meanwhile keeps what the others have granted it from those who ask: give it a few times what the slowest server takes. A Lock,
	// which asks again, rarely waits for so long. Defaults to OpTimeout, at least 1ms.
	RedLockTimeout time.Duration

	// Cohort bounds how many goroutines of this process have a lock in a row, without a
	// word to Redis, while other processes wait for it. While none is known to wait it is
	// only asked every 10ms whether that is still so. Of a FairMutex it bounds how many
	// have it in a row. Defaults to 64, which is the most for a FairMutex; 1 gives the
	// lock back to Redis after each holder.
	Cohort int

	// TokenTTL is how long the counter of a key's fencing tokens is kept after its last grant, so
	// that millions of keys leave nothing behind; tokens rise all the same. [Forever] keeps it, which
	// fleets need whose Java programs use Redisson's RFencedLock on the same keys: it counts from 1
	// when the counter is gone. A counter that Java made is kept for ever in any case; one that a Client made is not, even
	// if Java counts on. Defaults to 10m, at least 1s.
	TokenTTL time.Duration

	// FairWait is how long a process that died while it waited for a [FairMutex] may hold up those behind it, once
	// it is next. It has to be the same in all processes: with each of them, Java programs too, the times of all
	// who wait are reckoned. Redisson's fairLockWaitTimeout. Defaults to 5m, at least 100ms.
	FairWait time.Duration

	// Retry says for how long to pause before Redis is asked again that did not answer, or with an error
	// that passes, such as that it is loading its data. [Backoff.Attempts] bounds how often in a row one
	// who waits asks in vain: then its call fails with what Redis failed with last, in place of waiting out
	// an outage as [Mutex.Lock] says. What is given back is tried on within OpTimeout, whatever the number of
	// attempts. Defaults to ExponentialBackoff(10ms, 250ms). Redisson's retryDelay and retryAttempts.
	Retry Backoff

	// Replicas is how many replicas have to know of a grant before it is one: of what Lock, TryLock and Acquire return,
	// and their variants. They have 1s to say so. Without enough of them the grant is given back, and who
	// waits is kept waiting as by any error that passes; then, and for who does not wait, the call fails with [ErrReplicas].
	// A failover to a replica that has confirmed a grant does not lose it; one to another replica still does, so as many as
	// there are make sure, and then one that is down stops the granting.
	//
	// What is handed over by another process is asked for again, to be confirmed; what passes between goroutines of this one is
	// confirmed already. Renewing and giving back wait for no replica. Grants go over connections of their own, 32
	// at most, since a connection that waits for replicas answers nobody else; the user needs the right to WAIT.
	//
	// Defaults to 0: no replica is waited for, which is nothing but what Redis promises. Redisson's
	// checkLockSyncedSlaves, with one replica and on by default.
	Replicas int

	// Tracking says how the loss of a key that was deleted, flushed, evicted or overwritten
	// is noticed: by default the server tells of it, within milliseconds, where it can.
	Tracking Tracking

	// PubSub says by which channels a cluster tells of releases. Elsewhere there is only one kind, and it is
	// not looked at. Redisson's shardedSubscriptionMode. Defaults to PubSubAuto.
	PubSub PubSub

	// TLS is how [Open] secures its connections where the url begins with rediss://: with it come the certificate
	// of a client, and trust in a private authority. Without a ServerName a server is to have the name by which it is
	// reached. [New] does not look at it. Defaults to the authorities of the system and no certificate.
	TLS *tls.Config

	// StartWithoutServer has [Open] return at once, whether or not a server answers, and connect in the background until it has:
	// for processes that are to start during an outage of Redis. Meanwhile it is as if Redis were away: a call that waits goes on
	// waiting, for 30s or for the watchdog or lease time if that is longer, and others fail with [ErrUnavailable]. What
	// will not be otherwise the next time, such as a wrong password, is the error of each call, and one line for Logger.
	// In a cluster PubSub has to say by which channels, since there is nobody to ask. [New] does not look at it.
	// Defaults to false: Open fails. Redisson's lazyInitialization.
	StartWithoutServer bool

	// DeadlockAfter is after how long Logger gets a line about a call that waits for others without a bound, one for each call: neither its
	// context has a deadline nor is there [WithWait]. If this very process holds what the call waits for, the lock was probably entered
	// again under an outer context, and the call waits for ever. It changes nothing else. Defaults to 5s; negative: never.
	DeadlockAfter time.Duration

	// Logger has a line for what no caller can learn otherwise, such as a subscription that fails.
	// Defaults to none.
	Logger *slog.Logger

	// Hooks observe the client.
	Hooks Hooks

	// Name is what the service is called, for operators: [Client.Snapshot] and whatever shows a fleet name the process by
	// it. At most 1024 bytes. Defaults to none, and then the program's own name has to do.
	Name string

	// ProfileLabels has profiles and traces say under which lock work was done: while the function of a Do runs, or a method of generated code,
	// its goroutine and those that it starts have the pprof label "lock", which is the name of the lock or else its kind, and a
	// trace of package runtime/trace has a region "lock <name>". The function gets a context with the label. It costs about 0.3us and 5 allocations
	// for each call. Defaults to false. Redisson has nothing like it.
	ProfileLabels bool

	// Anonymous leaves the host and the process id out of what the client tells of its process, where they are nobody's
	// business. What remains is its id, which is part of every lock, the names of the service and of the program, and when it began.
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
	if err := o.Retry.check(); err != nil {
		return o, fmt.Errorf("lockgen: Options.Retry: %w", err)
	}
	switch {
	case o.Watchdog < minLease:
		return o, fmt.Errorf("lockgen: Options.Watchdog: %w: %v is shorter than %v", ErrBadOption, o.Watchdog, minLease)
	case o.OpTimeout < 0:
		return o, fmt.Errorf("lockgen: Options.OpTimeout: %w: %v is negative", ErrBadOption, o.OpTimeout)
	case o.RedLockTimeout < time.Millisecond:
		return o, fmt.Errorf("lockgen: Options.RedLockTimeout: %w: %v is shorter than 1ms", ErrBadOption, o.RedLockTimeout)
	case o.TokenTTL < time.Second && o.TokenTTL != Forever:
		return o, fmt.Errorf("lockgen: Options.TokenTTL: %w: %v is shorter than 1s", ErrBadOption, o.TokenTTL)
	case o.FairWait < minLease:
		return o, fmt.Errorf("lockgen: Options.FairWait: %w: %v is shorter than %v", ErrBadOption, o.FairWait, minLease)
	case o.Tracking != TrackingAuto && o.Tracking != TrackingOff:
		return o, fmt.Errorf("lockgen: Options.Tracking: %w: %d is neither TrackingAuto nor TrackingOff", ErrBadOption, o.Tracking)
	case o.Replicas < 0:
		return o, fmt.Errorf("lockgen: Options.Replicas: %w: %d is negative", ErrBadOption, o.Replicas)
	case o.PubSub < PubSubAuto || o.PubSub > PubSubBoth:
		return o, fmt.Errorf("lockgen: Options.PubSub: %w: %d is none of the constants", ErrBadOption, o.PubSub)
	case len(o.Name) > maxName:
		return o, fmt.Errorf("lockgen: Options.Name: %w: %d bytes are more than %d", ErrBadOption, len(o.Name), maxName)
	case o.Cohort < 0:
		return o, fmt.Errorf("lockgen: Options.Cohort: %w: %d is negative", ErrBadOption, o.Cohort)
	}
	return o, nil
}

// secure has connections secured as TLS says.
func (o Options) secure(url string, option *rueidis.ClientOption) error {
	if o.TLS == nil {
		return nil
	}
	if option.TLSConfig == nil {
		scheme, _, _ := strings.Cut(url, "://")
		return fmt.Errorf("lockgen: Options.TLS: %w: the url begins with %s://, not with rediss://", ErrBadOption, scheme)
	}
	name := option.TLSConfig.ServerName
	option.TLSConfig = o.TLS.Clone()
	if option.TLSConfig.ServerName == "" {
		option.TLSConfig.ServerName = name
	}
	return nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// A LockOption adjusts a primitive, where it is given to the Client's method, or one call,
// where it is given to Lock or TryLock. The call's wins.
//
// One that means nothing for the kind, as [WithLease] for a [Semaphore], and one that is nil, is an [ErrBadOption] of the call, before anything
// is sent.
type LockOption interface{ applyLock(*lockConfig) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }

// WithWait bounds the wait and nothing else: after d, Lock fails with [ErrNotAcquired], or with [ErrUnavailable] if Redis
// does not answer, for which it has a second more. 0 tries once, [UntilDone] is no bound, and a negative d is [ErrBadOption]. So is WithWait among
// the options of TryLock, TryAcquire and their like, which try once. A context with a timeout would also end the lease's context. Redisson's
// waitTime.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.wait = d
		c.said |= saidWait
	})
}

// WithLease sets a lease of fixed length that is not renewed: d after the grant the lock is
// free again, whatever its holder does, and the holder learns of it before. At least 100ms. Who enters again what it has
// has it for at least d from then on, which takes a request unless it lasts for so long anyway; what is renewed stays so,
// and nothing is shortened. If that request fails the call does, and the outer lease stays what it is, unless it is lost. Redisson's leaseTime.
func WithLease(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.ttl, c.renew = d, false
		c.said |= saidLease
	})
}

// WithWatchdog overrides [Options.Watchdog]: the lock is renewed while it is held and
// outlives a crashed holder by at most d. At least 100ms. It undoes an earlier [WithLease].
// Redisson has one watchdog timeout for all locks.
func WithWatchdog(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.ttl, c.renew = d, true
		c.said |= saidLease
	})
}

// WithMaxHold stops renewing the lease d after it was granted, so that a holder that never
// unlocks loses it, when the watchdog time is over, instead of keeping it for ever. It does not
// shorten a lease of fixed length. Redisson has nothing like it.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.maxHold, c.limited = d, true })
}

// WithFencing has the lease carry a fencing token, [Lease.Token]: larger than that of every earlier
// lease of the key that has one, also after Redis was restarted empty or failed over to a replica that
// missed the last writes. Redisson's RFencedLock, with the counter of which it shares the key.
func WithFencing() LockOption {
	return lockOption(func(c *lockConfig) { c.fenced = true })
}

// WithName says what a lock is taken for, to operators who see who holds it and who waits: the method of a service, as in
// "orders.Service.Pay". It is no part of the key and changes nothing else. Few names for many keys are best, since metrics
// count by them. At most 1024 bytes. Generated code gives the name of its method. Redisson has nothing like it.
func WithName(name string) LockOption { return nameOption(name) }

// A nameOption is an option that can be read before the others are applied.
type nameOption string

func (n nameOption) applyLock(c *lockConfig) { c.name = string(n) }

// A labelOption is what generated code says of a lock: the name of the method, and the template of its key.
type labelOption struct{ name, template string }

func (l *labelOption) applyLock(c *lockConfig) { c.name, c.template = l.name, l.template }

// labelOf returns the name that the options of a lock and of one call give it, and the template of its key, or none.
func labelOf(base, call []LockOption) (name, template string) {
	for _, opts := range [...][]LockOption{base, call} {
		for _, o := range opts {
			switch o := o.(type) {
			case nameOption:
				name = string(o)
			case *labelOption:
				name, template = o.name, o.template
			}
		}
	}
	return name, template
}

// maxName is how long a name may be, in bytes.
const maxName = protocol.MaxKey

// lockConfig is what one call of Lock goes by.
type lockConfig struct {
	wait     time.Duration // UntilDone, 0 to try once, or a bound
	maxHold  time.Duration // if limited
	limited  bool
	backoff  Backoff // if quiet
	name     string  // WithName
	template string  // of its key, in generated code
	follows  bool    // see waiter
	part     func()  // says that the call has to wait of which this one is a part; nil if it is none
	said     said    // by which options
	bad      error   // why one of them is of no use
	terms
}

// said notes which options were given.
type said uint8

const (
	saidWait  said = 1 << iota
	saidLease      // or a watchdog
)

// apply goes through options in their order.
func (cfg *lockConfig) apply(opts []LockOption) {
	for _, o := range opts {
		if o == nil {
			cfg.bad = errNoOption
			continue
		}
		o.applyLock(cfg)
	}
}

// once is what TryLock, TryAcquire and their like add to the options of a call. A wait that the primitive was made with does not count
// then; one among the options of the call is a mistake.
var once LockOption = lockOption(func(c *lockConfig) {
	if c.said&saidWait != 0 && c.bad == nil {
		c.bad = fmt.Errorf("%w: WithWait means nothing for what tries once", ErrBadOption)
	}
	c.wait = 0
})

// meaningless returns which option of a call means nothing for a lock of that kind, or nil.
func (cfg *lockConfig) meaningless(kind string) error {
	var name string
	switch counts := kind == kindSemaphore || kind == kindLatch; {
	case counts && cfg.said&saidLease != 0:
		name = "WithLease or WithWatchdog"
	case counts && cfg.limited:
		name = "WithMaxHold"
	case cfg.fenced && (counts || kind == kindPermit || kind == kindRead):
		name = "WithFencing"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s means nothing for %s", ErrBadOption, name, map[string]string{
		kindSemaphore: "a semaphore, whose permits have no lease and no fencing token", kindLatch: "a latch, which nobody holds",
		kindPermit: "a permit, which has no fencing token", kindRead: "a reader, who has no fencing token",
	}[kind])
}

// terms are what a holder and Redis agree on.
type terms struct {
	ttl     time.Duration
	renew   bool
	fenced  bool
	polling bool // nothing is subscribed for it
}

func (c *Client) configure(base, call []LockOption) (lockConfig, error) {
	if c.made() == nil {
		return lockConfig{}, errNoClient
	}
	if len(base)+len(call) == 0 {
		return lockConfig{wait: UntilDone, terms: terms{ttl: c.opts.Watchdog, renew: true}}, nil
	}
	cfg := lockConfig{wait: UntilDone, terms: terms{ttl: c.opts.Watchdog, renew: true}}
	cfg.apply(base)
	made := cfg.said
	cfg.said = 0
	cfg.apply(call)
	cfg.said |= made
	if cfg.bad != nil {
		return cfg, cfg.bad
	}
	if cfg.polling {
		if err := cfg.backoff.check(); err != nil {
			return cfg, err
		}
	}
	switch {
	case cfg.wait < 0 && cfg.wait != UntilDone:
		return cfg, fmt.Errorf("%w: a wait of %v is negative", ErrBadOption, cfg.wait)
	case len(cfg.name) > maxName:
		return cfg, fmt.Errorf("%w: a name of %d bytes is longer than %d", ErrBadOption, len(cfg.name), maxName)
	case cfg.limited && cfg.maxHold <= 0:
		return cfg, fmt.Errorf("%w: a maximal hold of %v is no time", ErrBadOption, cfg.maxHold)
	case cfg.ttl < minLease:
		name := "lease"
		if cfg.renew {
			name = "watchdog"
		}
		return cfg, tooShort(name, cfg.ttl)
	}
	return cfg, nil
}

func tooShort(name string, d time.Duration) error {
	return fmt.Errorf("%w: a %s of %v is shorter than %v", ErrBadOption, name, d, minLease)
}
