package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// lease is what every library is told, so that none of them expires or renews during a run.
const lease = 30 * time.Second

// A lock waits for key and returns what gives it back.
type lock func(ctx context.Context, key string) (unlock func() error, err error)

// A library is one client of one process.
type library struct {
	name  string
	floor bool // not a lock: it cannot wait
	open  func(addr string) (lock, func(), error)
}

var libraries = []library{
	{name: "floor", floor: true, open: openFloor},
	{name: "lockgen", open: openLockgen},
	{name: "redislock", open: openRedislock},
	{name: "redsync/go-redis", open: openRedsyncGoRedis},
	{name: "redsync/rueidis", open: openRedsyncRueidis},
	{name: "rueidislock", open: openRueidislock(false)},
	{name: "rueidislock, 1 key", open: openRueidislock(true)},
}

func rueidisClient(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1})
}

func openFloor(addr string) (lock, func(), error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, nil, err
	}
	take := rueidis.NewLuaScript(`redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return 1`)
	drop := rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return redis.call('del', KEYS[1]) end return 0`)
	return func(ctx context.Context, key string) (func() error, error) {
		keys := []string{key}
		if err := take.Exec(ctx, rc, keys, []string{"owner", "30000"}).Error(); err != nil {
			return nil, err
		}
		return func() error { return drop.Exec(ctx, rc, keys, []string{"owner"}).Error() }, nil
	}, rc.Close, nil
}

func openLockgen(addr string) (lock, func(), error) {
	c, err := lockrt.Open("redis://"+addr, lockrt.Options{Watchdog: lease})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, key string) (func() error, error) {
		l, err := c.Mutex(key).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Unlock(ctx) }, nil
	}, func() { _ = c.Close() }, nil
}

func openRedislock(addr string) (lock, func(), error) {
	rc := redis.NewClient(&redis.Options{Addr: addr})
	c := redislock.New(rc)
	wait := &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)}
	return func(ctx context.Context, key string) (func() error, error) {
		l, err := c.Obtain(ctx, key, lease, wait)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(ctx) }, nil
	}, func() { _ = rc.Close() }, nil
}

func openRedsyncGoRedis(addr string) (lock, func(), error) {
	rc := redis.NewClient(&redis.Options{Addr: addr})
	return redsyncLock(redsync.New(rsgoredis.NewPool(rc))), func() { _ = rc.Close() }, nil
}

func openRedsyncRueidis(addr string) (lock, func(), error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, nil, err
	}
	return redsyncLock(redsync.New(rsrueidis.NewPool(rueidiscompat.NewAdapter(rc)))), rc.Close, nil
}

func redsyncLock(rs *redsync.Redsync) lock {
	return func(ctx context.Context, key string) (func() error, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1_000_000), redsync.WithRetryDelay(5*time.Millisecond))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("not unlocked")
			}
			return err
		}, nil
	}
}

func openRueidislock(oneKey bool) func(addr string) (lock, func(), error) {
	return func(addr string) (lock, func(), error) {
		opts := rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
			KeyValidity:  lease,
		}
		if oneKey {
			opts.KeyMajority, opts.NoLoopTracking = 1, true
		}
		l, err := rueidislock.NewLocker(opts)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, key string) (func() error, error) {
			_, cancel, err := l.WithContext(ctx, key)
			if err != nil {
				return nil, err
			}
			return func() error { cancel(); return nil }, nil
		}, l.Close, nil
	}
}
