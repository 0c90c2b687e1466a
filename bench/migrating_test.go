package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// errBusy is what the code of docs/migrating.md returns when another caller holds the lock.
var errBusy = errors.New("somebody else is at it")

// The code of docs/migrating.md: the same work under a lock of each library.

func withRedislock(ctx context.Context, locker *redislock.Client, pay func(ctx context.Context) error) error {
	lock, err := locker.Obtain(ctx, "order:42", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 30),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	}
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return pay(ctx) // has to end within 30 s, or to call lock.Refresh
}

func withRedsync(ctx context.Context, rs *redsync.Redsync, pay func(ctx context.Context) error) error {
	mutex := rs.NewMutex("order:42", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err // taken, or Redis does not answer
	}
	defer mutex.UnlockContext(ctx)
	return pay(ctx) // has to end within 30 s, or to call mutex.ExtendContext
}

func withRueidislock(ctx context.Context, locker rueidislock.Locker, pay func(ctx context.Context) error) error {
	held, unlock, err := locker.WithContext(ctx, "order:42")
	if err != nil {
		return err
	}
	defer unlock()
	return pay(held)
}

func withLockgen(ctx context.Context, client *lockrt.Client, pay func(ctx context.Context) error) error {
	lease, err := client.Mutex("order:42").Lock(ctx, lockrt.WithWait(3*time.Second))
	if errors.Is(err, lockrt.ErrNotAcquired) {
		return errBusy
	}
	if err != nil {
		return err // Redis does not answer, or ctx has ended
	}
	defer lease.Unlock(ctx)
	return pay(lease.Context())
}

// TestMigrating runs the code of docs/migrating.md.
func TestMigrating(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	goredis := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer goredis.Close()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}}, KeyMajority: 1})
	require.NoError(t, err)
	defer locker.Close()
	client, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: time.Minute})
	require.NoError(t, err)
	defer client.Close()

	paid := 0
	pay := func(ctx context.Context) error {
		paid++
		return ctx.Err()
	}
	require.NoError(t, withRedislock(t.Context(), redislock.New(goredis), pay))
	require.NoError(t, withRedsync(t.Context(), redsync.New(rsgoredis.NewPool(goredis)), pay))
	require.NoError(t, withRueidislock(t.Context(), locker, pay))
	require.NoError(t, withLockgen(t.Context(), client, pay))
	require.Equal(t, 4, paid)
}
