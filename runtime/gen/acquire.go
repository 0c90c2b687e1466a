package gen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/bridge"
)

// The functions of package lockrt for this one.
var (
	lent         = bridge.Lent()
	renews       = lent.Renews.(func(c *lockrt.Client, opts []lockrt.LockOption) (renews bool, err error))
	label        = lent.Label.(func(name, template string) lockrt.LockOption)
	profiles     = lent.Profiles.(func(c *lockrt.Client) bool)
	permitLocker = lent.PermitLocker.(func(s *lockrt.PermitSemaphore) lockrt.Locker)
	giveBack     = lent.GiveBack.(func(leases []*lockrt.Lease, least time.Duration, keep bool) error)
	unreported   = lent.Unreported.(func(ctx context.Context, c *lockrt.Client, name, template string, err error))
	unreportedOf = lent.UnreportedOf.(func(call context.Context, l *lockrt.Lease, name, template string, err error))
)

// A KindKey is a key with the kind of its lock, for a method whose locks are of several kinds.
type KindKey struct {
	Kind    lockrt.Kind // "" for a mutex
	Permits int         // of a semaphore; see [Spec]
	Key     string
	Fence   bool // with a fencing token
}

// locker returns the lock of k. It fails for a kind that is no lock.
func (a Acquirer) locker(k KindKey) (lockrt.Locker, error) {
	c := a.c
	var opts []lockrt.LockOption
	if k.Fence {
		opts = append(opts, lockrt.WithFencing())
	}
	switch k.Kind {
	case lockrt.KindWrite:
		return c.RWMutex(k.Key, opts...), nil
	case lockrt.KindRead:
		return c.RWMutex(k.Key, opts...).RLocker(), nil
	case lockrt.KindFair:
		return c.FairMutex(k.Key, opts...), nil
	case lockrt.KindPermit:
		return permitLocker(c.PermitSemaphore(k.Key, k.Permits, opts...)), nil
	case lockrt.KindRedLock:
		return lockrt.NewRedLock(k.Key, a.quorum, opts...), nil
	case "", lockrt.KindMutex:
		return c.Mutex(k.Key, opts...), nil
	}
	return nil, fmt.Errorf("%w: %q is not the kind of a lock", lockrt.ErrBadOption, k.Kind)
}

// named returns the name of a kind, with its article.
func named(k lockrt.Kind) string {
	switch k {
	case "", lockrt.KindMutex:
		return "a mutex"
	case lockrt.KindWrite:
		return "a write lock"
	case lockrt.KindRead:
		return "a read lock"
	case lockrt.KindFair:
		return "a fair mutex"
	case lockrt.KindPermit:
		return "a semaphore"
	case lockrt.KindRedLock:
		return "a red lock"
	}
	return "of kind " + string(k)
}

// distinct returns keys in their order, each once: a writer reads too. It fails if one is of several locks.
func distinct(keys []KindKey) ([]KindKey, error) {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b KindKey) int { return strings.Compare(a.Key, b.Key) })
	once := keys[:0]
	for _, k := range keys {
		if k.Kind == "" {
			k.Kind = lockrt.KindMutex
		}
		last := len(once) - 1
		if last >= 0 && once[last].Key == k.Key && once[last].Kind == k.Kind {
			once[last].Fence = once[last].Fence || k.Fence
			k.Fence = once[last].Fence
		}
		switch {
		case last < 0 || once[last].Key != k.Key:
			once = append(once, k)
		case once[last] == k:
		case once[last].Kind == lockrt.KindRead && k.Kind == lockrt.KindWrite:
			once[last] = k
		case once[last].Kind == lockrt.KindWrite && k.Kind == lockrt.KindRead:
		case once[last].Kind == k.Kind:
			return nil, &lockrt.KeyError{Path: k.Key, Reason: fmt.Sprintf("is a semaphore of %d permits, and of %d", once[last].Permits, k.Permits)}
		default:
			return nil, &lockrt.KeyError{Path: k.Key, Reason: fmt.Sprintf("is %s, and %s", named(once[last].Kind), named(k.Kind))}
		}
	}
	return once, nil
}

// A Spec is the annotation of one method's locks.
type Spec struct {
	Name     string        // of the method, like "orders.Service.Pay"; it begins error messages, and is the name of the locks for operators and metrics
	Template string        // of the keys, like "order:{o.ID}", for hooks
	Kind     lockrt.Kind   // of all its locks, unless each key says which; "" for a mutex
	Permits  int           // of a semaphore: the first Acquire creates it with that many permits
	Wait     time.Duration // [lockrt.UntilDone], 0 to try once, or a bound for all keys together
	Watchdog time.Duration // 0 for [lockrt.Options.Watchdog]
	Lease    time.Duration // a fixed length without renewal; 0 for the watchdog
	Min      time.Duration // how long the keys of mutexes stay locked at least, although the call returns before
	Linger   time.Duration // how long the keys of mutexes stay with the client after the call, see [lockrt.WithLinger]; 0 for [lockrt.Options.Linger]
	Keep     bool          // the keys of mutexes stay locked until the lease ends, which must be of fixed length
	Report   bool          // a loss is joined to the error and does not end the context of the call
	Empty    bool          // no keys are no error: then nothing is locked
	Fence    bool          // with a fencing token, which the method finds by [lockrt.TokenFrom]; unless each key says whether
}

func (s *Spec) options() []lockrt.LockOption {
	opts := s.timing()
	if s.Fence {
		opts = append(opts, lockrt.WithFencing())
	}
	return opts
}

// timing returns the options about times.
func (s *Spec) timing() []lockrt.LockOption {
	opts := []lockrt.LockOption{lockrt.WithWait(s.Wait), label(s.Name, s.Template)}
	switch {
	case s.Lease != 0:
		opts = append(opts, lockrt.WithLease(s.Lease))
	case s.Watchdog != 0:
		opts = append(opts, lockrt.WithWatchdog(s.Watchdog))
	}
	if s.Linger != 0 {
		opts = append(opts, lockrt.WithLinger(s.Linger))
	}
	return opts
}

// An Acquirer acquires the locks of annotations, with options that override theirs: the durations
// that are right for one environment and not for another.
type Acquirer struct {
	c      *lockrt.Client
	quorum []*lockrt.Client
	opts   []lockrt.LockOption
}

// With returns an Acquirer for locks of c with opts, which override each [Spec]. Acquire reports options that are
// unusable, alone or with a Spec.
func With(c *lockrt.Client, opts ...lockrt.LockOption) Acquirer {
	return Acquirer{c: c, opts: slices.Clone(opts)}
}

// Quorum returns an Acquirer whose locks of [lockrt.KindRedLock] are held on a majority of the servers of clients, as
// those of [lockrt.NewRedLock] are. Acquire reports unusable clients.
func (a Acquirer) Quorum(clients []*lockrt.Client) Acquirer {
	a.quorum = slices.Clone(clients)
	return a
}

// Quorum returns an Acquirer that has locks of [lockrt.KindRedLock] only, with opts as for [With].
func Quorum(clients []*lockrt.Client, opts ...lockrt.LockOption) Acquirer {
	var first *lockrt.Client
	if len(clients) > 0 {
		first = clients[0]
	}
	return With(first, opts...).Quorum(clients)
}

// Acquire locks keys as spec demands: all or none, as a [lockrt.MultiLock] does, so that two calls cannot deadlock. A
// key that is named several times is locked once. It fails like [lockrt.Mutex.Lock].
func (a Acquirer) Acquire(ctx context.Context, spec *Spec, keys ...string) (*Hold, error) {
	if len(keys) > 1 {
		keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	}
	return a.acquire(ctx, spec, len(keys), func(i int) (lockrt.Locker, error) {
		return a.locker(KindKey{spec.Kind, spec.Permits, keys[i], spec.Fence})
	})
}

// AcquireKinds is Acquire of locks of several kinds. It fails with a [lockrt.KeyError] if one key is of locks that do
// not go together; a key for reading and writing is for writing.
func (a Acquirer) AcquireKinds(ctx context.Context, spec *Spec, keys ...KindKey) (*Hold, error) {
	keys, err := distinct(keys)
	if err != nil {
		return nil, lent.Explain(spec.Name, err)
	}
	return a.acquire(ctx, spec, len(keys), func(i int) (lockrt.Locker, error) { return a.locker(keys[i]) })
}

// acquire acquires n locks, which are in the order of their keys, each once.
func (a Acquirer) acquire(ctx context.Context, spec *Spec, n int, locker func(i int) (lockrt.Locker, error)) (*Hold, error) {
	if n == 0 && !spec.Empty {
		return nil, &lockrt.KeyError{Name: spec.Name, Reason: "is missing: there is nothing to lock"}
	}
	if a.c == nil {
		return nil, lent.Explain(spec.Name, fmt.Errorf("%w: there is no client", lockrt.ErrBadOption))
	}
	if ctx == nil {
		return nil, lent.Explain(spec.Name, fmt.Errorf("%w: there is no context", lockrt.ErrBadOption))
	}
	opts := append(spec.timing(), a.opts...)
	renewed, err := renews(a.c, opts)
	if err == nil && spec.Keep && renewed {
		err = fmt.Errorf("%w: a lock that is kept until its lease ends needs one of fixed length", lockrt.ErrBadOption)
	}
	if err != nil {
		return nil, lent.Explain(spec.Name, err)
	}
	hold := &Hold{spec: spec, call: ctx, ctx: ctx}
	if n == 0 {
		return hold, nil
	}
	all, err := together(n, locker)
	if err != nil {
		return nil, lent.Explain(spec.Name, err)
	}
	lease, err := all.Lock(ctx, opts...)
	if err != nil {
		return nil, lent.Explain(spec.Name, err)
	}
	hold.ctx, hold.labelled = lease.Context(), profiles(a.c)
	if hold.leases = lease.Parts(); hold.leases == nil {
		hold.only[0] = lease
		hold.leases = hold.only[:]
	}
	return hold, nil
}

// Unreported reports *err to [lockrt.Options.Logger] and [lockrt.Hooks.Unreported], for a method that returns no error.
// A lock with another holder is no error there.
func (a Acquirer) Unreported(ctx context.Context, spec *Spec, err *error) {
	if *err == nil || errors.Is(*err, lockrt.ErrNotAcquired) || a.c == nil {
		return
	}
	if ctx == nil {
		ctx = context.Background() // a hook asks it for values
	}
	unreported(ctx, a.c, spec.Name, spec.Template, *err)
}

// together returns the lock of all of n lockers, of one or more.
func together(n int, locker func(i int) (lockrt.Locker, error)) (lockrt.Locker, error) {
	if n == 1 {
		return locker(0)
	}
	lockers := make([]lockrt.Locker, n)
	for i := range lockers {
		l, err := locker(i)
		if err != nil {
			return nil, err
		}
		lockers[i] = l
	}
	return lockrt.NewMultiLock(lockers...), nil
}
