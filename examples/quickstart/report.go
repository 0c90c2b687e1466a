package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// report uses a lock without any annotation.
func report(ctx context.Context, client *lockrt.Client) error {
	lease, err := client.Mutex("report").Lock(ctx, lockrt.WithWait(5*time.Second))
	if errors.Is(err, lockrt.ErrNotAcquired) {
		return nil // somebody else is at it
	}
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return write(lease.Context()) // the context ends if the lock is lost
}

func write(ctx context.Context) error {
	fmt.Println("report: written")
	return ctx.Err()
}
