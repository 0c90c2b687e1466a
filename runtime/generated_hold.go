package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A Key is a whole key, as it is in Redis. A function of a program that makes keys for annotations
// returns one if what it returns is not to be escaped; the function then sees to it that different
// things get different keys.
type Key string

// A Kind says which lock a [Spec] means.
type Kind int

// The kinds.
const (
	KindMutex  Kind = iota // [Client.Mutex]
	KindWrite              // the writer of [Client.RWMutex]
	KindRead               // its readers
	KindFair               // [Client.FairMutex]
	KindPermit             // one permit of [Client.PermitSemaphore]
	KindRed                // [NewRedLock] of the clients of [Acquirer.Quorum]
)

// named is what the kind is called, with its article.
func (k Kind) named() string {
	switch k {
	case KindMutex:
		return "a mutex"
	case KindWrite:
		return "a write lock"
	case KindRead:
		return "a read lock"
	case KindFair:
		return "a fair mutex"
	case KindPermit:
		return "a semaphore"
	case KindRed:
		return "a red lock"
	}
	return "a lock of kind " + strconv.Itoa(int(k))
}

// A KindKey is a key and which lock it is of, for a method whose locks are not all of one kind.
type KindKey struct {
	Kind    Kind
	Permits int // of a semaphore; see [Spec]
	Key     string
	Fence   bool // with a fencing token
}

// locker returns the lock of k. It fails only for a red one.
func (a Acquirer) locker(k KindKey) (Locker, error) {
	c := a.c
	var opts []LockOption
	if k.Fence {
		opts = append(opts, WithFencing())
	}
	switch k.Kind {
	case KindWrite:
		return c.RWMutex(k.Key, opts...), nil
	case KindRead:
		return c.RWMutex(k.Key, opts...).RLocker(), nil
	case KindFair:
		return c.FairMutex(k.Key, opts...), nil
	case KindPermit:
		return permitLocker{c.PermitSemaphore(k.Key, k.Permits, opts...)}, nil
	case KindRed:
		return NewRedLock(k.Key, a.quorum, opts...)
	default:
		return c.Mutex(k.Key, opts...), nil
	}
}

// distinct returns keys in their order, each once: who writes reads too. It fails if one is of several locks.
func distinct(keys []KindKey) ([]KindKey, error) {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b KindKey) int { return strings.Compare(a.Key, b.Key) })
	once := keys[:0]
	for _, k := range keys {
		last := len(once) - 1
		if last >= 0 && once[last].Key == k.Key && once[last].Kind == k.Kind {
			once[last].Fence = once[last].Fence || k.Fence
			k.Fence = once[last].Fence
		}
		switch {
		case last < 0 || once[last].Key != k.Key:
			once = append(once, k)
		case once[last] == k:
		case once[last].Kind == KindRead && k.Kind == KindWrite:
			once[last] = k
		case once[last].Kind == KindWrite && k.Kind == KindRead:
		case once[last].Kind == k.Kind:
			return nil, &KeyError{Path: k.Key, Reason: fmt.Sprintf("is a semaphore of %d permits, and of %d", once[last].Permits, k.Permits)}
		default:
			return nil, &KeyError{Path: k.Key, Reason: fmt.Sprintf("is %s, and %s", once[last].Kind.named(), k.Kind.named())}
		}
	}
	return once, nil
}

// A Spec is what an annotation says about the locks of one method.
type Spec struct {
	Name     string        // of the method, like "orders.Service.Pay"; it begins error messages
	Kind     Kind          // of all its locks, unless each key says which
	Permits  int           // of a semaphore: with how many the first that acquires creates it
	Wait     time.Duration // [UntilDone], 0 to try once, or a bound for all keys together
	Watchdog time.Duration // 0 for [Options.Watchdog]
	Lease    time.Duration // a fixed length without renewal; 0 for the watchdog
	Min      time.Duration // how long the keys of mutexes stay locked at least, although they are released before
	Keep     bool          // those of mutexes stay locked until the lease ends, which has to be of fixed length
	Report   bool          // a loss is reported at the end and does not end the context of the call
	Empty    bool          // that there are no keys is no mistake: then nothing is locked
	Fence    bool          // with a fencing token, which the method finds by [TokenFrom]; unless each key says whether
}

func (s *Spec) options() []LockOption {
	opts := s.timing()
	if s.Fence {
		opts = append(opts, WithFencing())
	}
	return opts
}

// timing are the options that count for locks of all kinds.
func (s *Spec) timing() []LockOption {
	opts := []LockOption{WithWait(s.Wait)}
	switch {
	case s.Lease != 0:
		opts = append(opts, WithLease(s.Lease))
	case s.Watchdog != 0:
		opts = append(opts, WithWatchdog(s.Watchdog))
	}
	return opts
}

// explain says in err which annotation it is about.
func (s *Spec) explain(err error) error {
	if bad := new(KeyError); errors.As(err, &bad) {
		return &KeyError{Name: s.Name, Path: bad.Path, Reason: bad.Reason, Err: bad.Err}
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

// Acquire is [Acquirer.Acquire] with what spec says.
func (c *Client) Acquire(ctx context.Context, spec *Spec, keys ...string) (*Hold, error) {
	return c.With().Acquire(ctx, spec, keys...)
}

// An Acquirer acquires what annotations say, with options that count more than theirs: the
// durations that are right for one environment and not for another.
type Acquirer struct {
	c      *Client
	quorum []*Client
	opts   []LockOption
}

// With returns an Acquirer whose locks are taken with opts, whatever a [Spec] says. Options that
// cannot be used, alone or with a Spec, are reported by Acquire.
func (c *Client) With(opts ...LockOption) Acquirer { return Acquirer{c: c, opts: slices.Clone(opts)} }

// Quorum returns an Acquirer whose locks of [KindRed] are held on a majority of the servers of clients, as those of
// [NewRedLock] are. What is wrong with the clients is reported by Acquire.
func (a Acquirer) Quorum(clients []*Client) Acquirer {
	a.quorum = slices.Clone(clients)
	return a
}

// Quorum returns an Acquirer that has locks of [KindRed] only, with opts as for [Client.With].
func Quorum(clients []*Client, opts ...LockOption) Acquirer {
	var first *Client
	if len(clients) > 0 {
		first = clients[0]
	}
	return first.With(opts...).Quorum(clients)
}

// Acquire locks keys as spec says: all or none, as a [MultiLock] does, so that two calls cannot wait
// for each other, each once however often it is named. It fails like [Mutex.Lock].
func (a Acquirer) Acquire(ctx context.Context, spec *Spec, keys ...string) (*Hold, error) {
	if len(keys) > 1 {
		keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	}
	return a.acquire(ctx, spec, len(keys), func(i int) (Locker, error) {
		return a.locker(KindKey{spec.Kind, spec.Permits, keys[i], spec.Fence})
	})
}

// AcquireKinds is Acquire of locks of several kinds. It fails with a [KeyError] if one key is of locks that
// do not go together; to read and write is to write.
func (a Acquirer) AcquireKinds(ctx context.Context, spec *Spec, keys ...KindKey) (*Hold, error) {
	keys, err := distinct(keys)
	if err != nil {
		return nil, spec.explain(err)
	}
	return a.acquire(ctx, spec, len(keys), func(i int) (Locker, error) { return a.locker(keys[i]) })
}

// acquire takes n locks, which are in the order of their keys, each once.
func (a Acquirer) acquire(ctx context.Context, spec *Spec, n int, locker func(i int) (Locker, error)) (*Hold, error) {
	if n == 0 && !spec.Empty {
		return nil, &KeyError{Name: spec.Name, Reason: "is missing: there is nothing to lock"}
	}
	if a.c == nil {
		return nil, spec.explain(fmt.Errorf("%w: there is no client", ErrBadOption))
	}
	opts := append(spec.timing(), a.opts...)
	cfg, err := a.c.configure(opts, nil)
	if err == nil && spec.Keep && cfg.renew {
		err = fmt.Errorf("%w: a lock that is kept until its lease ends needs one of fixed length", ErrBadOption)
	}
	if err != nil {
		return nil, spec.explain(err)
	}
	hold := &Hold{spec: spec, call: ctx, ctx: ctx}
	if n == 0 {
		return hold, nil
	}
	all, err := together(n, locker)
	if err != nil {
		return nil, spec.explain(err)
	}
	lease, err := all.Lock(ctx, opts...)
	if err != nil {
		return nil, spec.explain(err)
	}
	hold.ctx = lease.Context()
	if hold.leases = lease.Parts(); hold.leases == nil {
		hold.only[0] = lease
		hold.leases = hold.only[:]
	}
	return hold, nil
}

// Unreported tells [Options.Logger] and [Hooks.Unreported] what *err says, for a method that returns no error. That
// somebody else holds the lock is no error there.
func (a Acquirer) Unreported(ctx context.Context, spec *Spec, err *error) {
	if *err == nil || errors.Is(*err, ErrNotAcquired) || a.c == nil {
		return
	}
	a.c.opts.Logger.ErrorContext(ctx, "lockgen: a method that returns no error could not take or keep its lock", "name", spec.Name, "error", *err)
	if hook := a.c.opts.Hooks.Unreported; hook != nil {
		hook(ctx, UnreportedEvent{Name: spec.Name, Err: *err})
	}
}

// together returns the lock of all of n lockers, of one or more.
func together(n int, locker func(i int) (Locker, error)) (Locker, error) {
	if n == 1 {
		return locker(0)
	}
	lockers := make([]Locker, n)
	for i := range lockers {
		l, err := locker(i)
		if err != nil {
			return nil, err
		}
		lockers[i] = l
	}
	return NewMultiLock(lockers...), nil
}

// A Hold is what [Acquirer.Acquire] acquired. It is released once, by Release or, if the result of
// the method has it, by that.
type Hold struct {
	spec   *Spec
	call   context.Context // that was given to Acquire
	ctx    context.Context // of the last lease, or of the call if there is none
	leases []*Lease
	only   [1]*Lease   // what leases is of if there is one
	lent   bool        // to a result of the method, which releases it
	closed atomic.Bool // by that result
}

// Context returns the context to work under. It ends when any of the locks is lost, with a cause
// matching [ErrLost], and when they are released. If a loss is only to be reported it ends with the
// context of the call and nothing else.
func (h *Hold) Context() context.Context {
	if h.spec.Report {
		return &reportContext{h.call, context.WithoutCancel(h.ctx)}
	}
	return h.ctx
}

// A reportContext ends with the context of the call, and is under leases all the same: locking their
// keys under it enters again.
type reportContext struct {
	context.Context

	leases context.Context
}

func (x *reportContext) Value(key any) any {
	if v := x.leases.Value(key); v != nil {
		return v
	}
	return x.Context.Value(key) // what contexts know of their own end
}

// Release unlocks all and joins to *err what went wrong: that a lock was lost while the method
// ran, even if the method returned nil, or that it could not be given back. If a result of the
// method has the Hold, Release does nothing.
func (h *Hold) Release(err *error) {
	if !h.lent {
		*err = afterLoss(h.call, *err, h.release())
	}
}

// release ends the leases in the reverse order, all of them whatever happens.
func (h *Hold) release() (err error) {
	if !h.spec.Keep && h.spec.Min == 0 && len(h.leases) > 0 {
		return release(h.leases)
	}
	free := make([]*Lease, 0, len(h.leases)) // at once
	for _, l := range slices.Backward(h.leases) {
		rest := h.spec.Min - monotonic.Since(l.began)
		switch {
		case h.spec.Keep:
			err = join(err, l.keep(forever))
		case rest > 0:
			err = join(err, l.keep(rest))
		default:
			free = append(free, l)
		}
	}
	slices.Reverse(free)
	return join(err, release(free))
}

// forever as the time for which a key stays locked means until its lease ends.
const forever time.Duration = -1

// keep ends l for its holder and leaves the key locked for d more. A key that is renewed is given
// back then, or runs out if the process has ended before; one that is not renewed is given back then,
// or runs out if d is forever. It fails like Unlock, and then the key may be free before.
func (l *Lease) keep(d time.Duration) error {
	hd, ok := l.hold.(*hold)
	if !ok || l.Err() != nil || d == forever && l.guard.Renew { // a red lock has no guard
		return l.Unlock(l.Context()) // a lease that was entered again is renewed for as long as the outer one
	}
	var err error
	if d != forever && l.guard.Ends().Before(time.Now().Add(d)) {
		// The process can end before d is over.
		if err = l.Extend(context.Background(), max(d, minLease)); errors.Is(err, ErrLost) {
			return join(err, l.Unlock(l.Context()))
		}
	}
	hd.keep(l)
	if d == forever {
		return err
	}
	c := l.client
	c.spawn(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closing:
			return
		}
		if err := l.Unlock(l.Context()); err != nil {
			c.opts.Logger.Warn("lockgen: a key that was to stay locked for a while could not be given back", "key", l.key, "error", err)
		}
	})
	return err
}
