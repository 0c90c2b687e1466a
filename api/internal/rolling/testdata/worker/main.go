// Worker is a process of a fleet: it works under locks of every kind that a release has, beside processes of other versions. It is
// built by TestRolling, once from the last release and once from the present code, so it uses what both have.
//
//	worker URL ROUNDS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, count string) (err error) {
	rounds, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	client, err := lockrt.Open(ctx, url, lockrt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	kinds := map[string]func(key string) (func() error, error){
		"mutex": func(key string) (func() error, error) { return hold(client.Mutex(key).Lock(ctx)) },
		"fair":  func(key string) (func() error, error) { return hold(client.FairMutex(key).Lock(ctx)) },
		"write": func(key string) (func() error, error) { return hold(client.RWMutex(key).Lock(ctx)) },
		"multi": func(key string) (func() error, error) {
			return hold(lockrt.NewMultiLock(client.Mutex(key), client.Mutex(key+":other")).Lock(ctx))
		},
		"permit": func(key string) (func() error, error) {
			permit, err := client.PermitSemaphore(key, 1).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return func() error { return permit.Release(ctx) }, nil
		},
		"semaphore": func(key string) (func() error, error) {
			s := client.Semaphore(key, 1)
			return func() error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
		},
	}
	for range rounds {
		for kind, lock := range kinds {
			unlock, err := lock("rolling:" + kind)
			if err == nil {
				err = errors.Join(add(ctx, client.Redis(), "counter:"+kind), unlock())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		lease, err := client.RWMutex("rolling:write").RLock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	return nil
}

// hold returns how a lease is given back.
func hold(lease *lockrt.Lease, err error) (func() error, error) {
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Unlock(context.Background()) }, nil
}

// add counts in two steps, which is wrong unless the lock excludes the others.
func add(ctx context.Context, redis rueidis.Client, key string) error {
	n, err := redis.Do(ctx, redis.B().Get().Key(key).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return redis.Do(ctx, redis.B().Set().Key(key).Value(strconv.FormatInt(n+1, 10)).Build()).Error()
}
