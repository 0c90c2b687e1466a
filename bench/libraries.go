package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// redislock and redsync get no message of a release and ask again at intervals: redislock as in its examples, redsync
// by its default of 50 to 250 ms. With shorter intervals they would be faster with few waiters, and their own requests
// would overload the server with many.
const (
	redislockAsks = 100 * time.Millisecond
	redsyncAsks   = 250 * time.Millisecond // at the latest
)

// A lock waits for key and returns the hold. Every call has a context that never ends: passing on one that can end
// costs a library a third on rueidis.
type lock func(key string) (held, error)

// held is a lock of a holder. Its implementations fit into a pointer, so that the benchmark allocates nothing for it.
type held interface {
	unlock() error
	trusted() bool // as far as the library knows
}

// A library is one client of one process.
type library struct {
	name     string
	floor    bool          // not a lock: it cannot wait
	us       bool          // it is lockgen
	family   bool          // it is another primitive than lockgen's Mutex
	lingers  bool          // it is lockgen's Mutex with WithLinger
	observer bool          // it is a client of lockgen that is observed
	plain    bool          // it is no library but written here; it is compared where the scenario says so
	bare     bool          // it is an experiment, which has no more than a goal needs; plain as well
	redisson bool          // it locks as Redisson does
	quorum   bool          // it can lock on several servers; commas separate their addresses
	renews   bool          // it renews leases, and reports a loss
	reenters bool          // a holder of a key can lock it again
	direct   []string      // commands that it sends itself and not only from scripts
	reads    bool          // it sends an EXISTS for each CLIENT CACHING, so that a server before 7.2 reports changes of what was renewed
	asks     time.Duration // the shortest interval at which it asks again, if it gets no message
	hands    int           // how many goroutines take many locks, if it cannot use as many as the others
	open     func(addr string, lease time.Duration) (*client, error)
}

// A client is a client of a library in one process.
type client struct {
	lock    lock
	lockAll func(keys []string) (held, error)      // several at once; nil if it cannot
	reenter func() (cycle func() error, err error) // locks a key, for a cycle that enters it again
	hooks   func() error                           // calls those of an acquisition; nil without any
	wait    func(key string) error                 // for a latch
	waits   func() int                             // the number of waiters, nil if the library does not report it
}

// take locks several keys: at once if the library can do so, else one after the other, in their
// order.
func (c *client) take(keys []string) (held, error) {
	if len(keys) == 1 {
		return c.lock(keys[0])
	}
	if c.lockAll != nil {
		return c.lockAll(keys)
	}
	all := &several{}
	for _, key := range keys {
		h, err := c.lock(key)
		if err != nil {
			return nil, errors.Join(err, all.unlock())
		}
		all.helds = append(all.helds, h)
	}
	return all, nil
}

// several are locks that were taken one after the other.
type several struct{ helds []held }

func (s *several) unlock() error {
	var errs []error
	for _, h := range slices.Backward(s.helds) {
		errs = append(errs, h.unlock())
	}
	return errors.Join(errs...)
}

func (s *several) trusted() bool {
	return !slices.ContainsFunc(s.helds, func(h held) bool { return !h.trusted() })
}

const (
	floor   = "floor"
	lockgen = "lockgen"
)

var libraries = append([]library{
	{name: floor, floor: true, open: openFloor},
	{name: lockgen, us: true, renews: true, reads: true, reenters: true, quorum: true, open: openLockgen},
	{name: lingering, us: true, lingers: true, open: openLingering},
	{name: "redislock", asks: redislockAsks, open: openRedislock},
	{name: "redsync/go-redis", direct: []string{"set"}, asks: redsyncAsks, quorum: true, open: openRedsyncGoRedis},
	{name: "redsync/rueidis", direct: []string{"set"}, asks: redsyncAsks, quorum: true, open: openRedsyncRueidis},
	{name: "rueidislock", renews: true, hands: 16, open: openRueidislock(false)},
	{name: "rueidislock 1 key", renews: true, hands: 16, open: openRueidislock(true)},
	{name: basic, plain: true, direct: []string{"set"}, open: openBasic},
	{name: redisson, plain: true, redisson: true, open: openRedisson(false)},
	{name: ports, plain: true, redisson: true, open: openRedisson(true)},
}, slices.Concat(family, observers, floors)...)

// known returns the library of that name.
func known(name string) (library, bool) {
	i := slices.IndexFunc(libraries, func(lib library) bool { return lib.name == name })
	if i < 0 {
		return library{}, false
	}
	return libraries[i], true
}

func rueidisClient(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidisOption(addr))
}

func rueidisOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1}
}

type floorHeld struct {
	drop func(keys []string) error
	keys []string
}

func (h *floorHeld) unlock() error { return h.drop(h.keys) }
func (h *floorHeld) trusted() bool { return true }

// The scripts of the floor, for one key and for several.
var (
	floorTake    = rueidis.NewLuaScript(`redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return 1`)
	floorDrop    = rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return redis.call('del', KEYS[1]) end return 0`)
	floorTakeAll = rueidis.NewLuaScript(`for _, key in ipairs(KEYS) do redis.call('hset', key, ARGV[1], 1) redis.call('pexpire', key, ARGV[2]) end return 1`)
	floorDropAll = rueidis.NewLuaScript(`for _, key in ipairs(KEYS) do redis.call('hdel', key, ARGV[1]) end return 1`)
)

func floorArguments(lease time.Duration) (takes, drops []string) {
	return []string{"owner", strconv.FormatInt(lease.Milliseconds(), 10)}, []string{"owner"}
}

func openFloor(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	unlock := func(keys []string) error { return floorDrop.Exec(context.Background(), rc, keys, drops).Error() }
	unlockAll := func(keys []string) error { return floorDropAll.Exec(context.Background(), rc, keys, drops).Error() }
	return &client{lockAll: func(keys []string) (held, error) {
		if err := floorTakeAll.Exec(context.Background(), rc, keys, takes).Error(); err != nil {
			return nil, err
		}
		return &floorHeld{unlockAll, keys}, nil
	}, lock: func(key string) (held, error) {
		keys := []string{key}
		if err := floorTake.Exec(context.Background(), rc, keys, takes).Error(); err != nil {
			return nil, err
		}
		return &floorHeld{unlock, keys}, nil
	}}, nil
}

type lockgenHeld struct{ *lockrt.Lease }

func (h lockgenHeld) unlock() error { return h.Unlock(context.Background()) }
func (h lockgenHeld) trusted() bool { return h.Err() == nil }

func openLockgen(addr string, lease time.Duration) (*client, error) {
	var clients []*lockrt.Client
	for one := range strings.SplitSeq(addr, ",") {
		c, err := lockrt.Open(context.Background(), "redis://"+one, lockrt.Options{Watchdog: lease})
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	if len(clients) > 1 {
		return &client{lock: leases(func(key string) (*lockrt.Lease, error) {
			m := lockrt.NewRedLock(key, clients)
			return m.Lock(context.Background())
		})}, nil
	}
	c := clients[0]
	return &client{
		lockAll: func(keys []string) (held, error) {
			lockers := make([]lockrt.Locker, len(keys))
			for i, key := range keys {
				lockers[i] = c.Mutex(key)
			}
			l, err := lockrt.NewMultiLock(lockers...).Lock(context.Background())
			if err != nil {
				return nil, err
			}
			return lockgenHeld{l}, nil
		},
		lock: func(key string) (held, error) {
			l, err := c.Mutex(key).Lock(context.Background())
			if err != nil {
				return nil, err
			}
			return lockgenHeld{l}, nil
		},
		reenter: func() (func() error, error) {
			m := c.Mutex("bench:reentry")
			outer, err := m.Lock(context.Background())
			if err != nil {
				return nil, err
			}
			return func() error {
				l, err := m.Lock(outer.Context())
				if err != nil {
					return err
				}
				return l.Unlock(context.Background())
			}, nil
		},
	}, nil
}

type redislockHeld struct{ *redislock.Lock }

func (h redislockHeld) unlock() error { return h.Release(context.Background()) }
func (h redislockHeld) trusted() bool { return true }

func openRedislock(addr string, lease time.Duration) (*client, error) {
	c := redislock.New(redis.NewClient(&redis.Options{Addr: addr}))
	wait := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockAsks)}
	obtain := func(keys []string) (held, error) {
		l, err := c.ObtainMulti(context.Background(), keys, lease, wait) // gives up after the lease
		if err != nil {
			return nil, err
		}
		return redislockHeld{l}, nil
	}
	return &client{lock: func(key string) (held, error) { return obtain([]string{key}) }, lockAll: obtain}, nil
}

func openRedsyncGoRedis(addr string, lease time.Duration) (*client, error) {
	var pools []rsredis.Pool
	for one := range strings.SplitSeq(addr, ",") {
		pools = append(pools, rsgoredis.NewPool(redis.NewClient(&redis.Options{Addr: one})))
	}
	return redsyncClient(redsync.New(pools...), lease), nil
}

func openRedsyncRueidis(addr string, lease time.Duration) (*client, error) {
	var pools []rsredis.Pool
	for one := range strings.SplitSeq(addr, ",") {
		rc, err := rueidisClient(one)
		if err != nil {
			return nil, err
		}
		pools = append(pools, rsrueidis.NewPool(rueidiscompat.NewAdapter(rc)))
	}
	return redsyncClient(redsync.New(pools...), lease), nil
}

type redsyncHeld struct{ *redsync.Mutex }

func (h redsyncHeld) unlock() error {
	ok, err := h.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errors.New("not unlocked")
	}
	return err
}
func (h redsyncHeld) trusted() bool { return true }

func redsyncClient(rs *redsync.Redsync, lease time.Duration) *client {
	return &client{lock: func(key string) (held, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1_000_000))
		if err := m.LockContext(context.Background()); err != nil {
			return nil, err
		}
		return redsyncHeld{m}, nil
	}}
}

type rueidislockHeld struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (h *rueidislockHeld) unlock() error { h.cancel(); return nil }
func (h *rueidislockHeld) trusted() bool { return h.ctx.Err() == nil }

func openRueidislock(oneKey bool) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) {
		opts := rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
			KeyValidity:  lease,
		}
		if oneKey {
			opts.KeyMajority, opts.NoLoopTracking = 1, true
		}
		l, err := rueidislock.NewLocker(opts)
		if err != nil {
			return nil, err
		}
		return &client{lock: func(key string) (held, error) {
			ctx, cancel, err := l.WithContext(context.Background(), key)
			if err != nil {
				return nil, err
			}
			return &rueidislockHeld{ctx, cancel}, nil
		}}, nil
	}
}
