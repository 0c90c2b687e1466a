package lockrt_test

import (
	"context"
	"errors"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Many may read a configuration at once, one writes it, wherever they run.
func ExampleRWMutex() {
	client, stop := exampleClient()
	defer stop()
	config := client.RWMutex("config")
	ctx := context.Background()

	one, err := config.RLock(ctx)
	if err != nil {
		panic(err)
	}
	two, err := config.RLock(ctx) // sends nothing: this process reads already
	if err != nil {
		panic(err)
	}
	_, err = config.TryLock(ctx)
	fmt.Println("write beside readers:", errors.Is(err, lockrt.ErrNotAcquired))
	_, err = config.Lock(one.Context())
	fmt.Println("write as a reader:", errors.Is(err, lockrt.ErrUpgrade))
	if err := errors.Join(one.Unlock(ctx), two.Unlock(ctx)); err != nil {
		panic(err)
	}
	err = config.Do(ctx, func(ctx context.Context, lease *lockrt.Lease) error {
		return ctx.Err() // write under ctx: it ends if the lock is lost
	})
	fmt.Println("write alone:", err)
	// Output:
	// write beside readers: true
	// write as a reader: true
	// write alone: <nil>
}

// A writer that goes on reading lets others read what it has written, and no other writer in between.
func ExampleRWMutex_downgrade() {
	client, stop := exampleClient()
	defer stop()
	config := client.RWMutex("config")
	ctx := lockrt.WithOwner(context.Background(), lockrt.NewOwner())

	write, err := config.Lock(ctx)
	if err != nil {
		panic(err)
	}
	read, err := config.RLock(ctx)
	if err != nil {
		panic(err)
	}
	if err := write.Unlock(ctx); err != nil {
		panic(err)
	}
	other, err := config.TryRLock(context.Background())
	fmt.Println("read beside it:", err)
	fmt.Println("still read:", read.Err())
	if err := errors.Join(other.Unlock(ctx), read.Unlock(ctx)); err != nil {
		panic(err)
	}
	// Output:
	// read beside it: <nil>
	// still read: <nil>
}
