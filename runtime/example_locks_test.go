package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
)

// One caller holds the lock of the order, and no other caller in any process does.
func ExampleMutex() {
	client, stop := exampleClient()
	defer stop()
	order := client.Mutex("order:42")
	ctx := context.Background()

	lease, err := order.Lock(ctx)
	if err != nil {
		panic(err)
	}
	_, err = order.TryLock(ctx)
	fmt.Println("somebody else:", errors.Is(err, lockrt.ErrNotAcquired))
	inner, err := order.Lock(lease.Context())
	fmt.Println("under its own lease:", err)
	_ = inner.Unlock(ctx)

	fmt.Println("given back:", lease.Unlock(ctx))
	fmt.Println("twice:", errors.Is(lease.Unlock(ctx), lockrt.ErrReleased))
	// Output:
	// somebody else: true
	// under its own lease: <nil>
	// given back: <nil>
	// twice: true
}

// The error of a call that did not get a lock names the holder, if the Client knows it.
func ExampleError() {
	client, stop := exampleClient()
	defer stop()
	order := client.Mutex("order:42")
	ctx := context.Background()

	lease, err := order.Lock(ctx)
	if err != nil {
		panic(err)
	}
	_, err = order.TryLock(ctx)
	times := regexp.MustCompile(`since .*\d`)
	fmt.Println(times.ReplaceAllString(err.Error(), "since 14:02:11"))
	var failed *lockrt.Error
	if errors.As(err, &failed) && failed.Holder != nil {
		fmt.Println("a call of this client:", failed.Holder.Own)
	}
	_ = lease.Unlock(ctx)
	// Output:
	// lockgen: try lock "order:42": not acquired (held by this process, since 14:02:11)
	// a call of this client: true
}

// Work is done under the context that Do gives, which ends with the lock.
func ExampleMutex_Do() {
	client, stop := exampleClient()
	defer stop()
	order := client.Mutex("order:42")
	err := order.Do(context.Background(), func(ctx context.Context, _ *lockrt.Lease) error {
		_, _ = order.ForceUnlock(ctx) // somebody takes it
		<-ctx.Done()
		return nil // whatever the work says
	})
	fmt.Println(errors.Is(err, lockrt.ErrLost))
	// Output: true
}

// Both accounts, or none, in any order of the arguments.
func ExampleMultiLock() {
	client, stop := exampleClient()
	defer stop()
	both := lockrt.NewMultiLock(client.Mutex("account:7"), client.Mutex("account:3"))
	err := both.Do(context.Background(), func(ctx context.Context, lease *lockrt.Lease) error {
		for _, part := range lease.Parts() {
			fmt.Println(part.Key())
		}
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// account:3
	// account:7
	// <nil>
}

// Three servers, one of which is gone.
func ExampleRedLock() {
	var clients []*lockrt.Client
	for i := range 3 {
		client, stop := exampleClient()
		if i == 2 {
			stop()
		} else {
			defer stop()
		}
		clients = append(clients, client)
	}
	leader := lockrt.NewRedLock("leader", clients)
	lease, err := leader.Lock(context.Background())
	fmt.Println(err)
	fmt.Println(lease.Unlock(context.Background()))
	// Output:
	// <nil>
	// <nil>
}

// AccountID names an account.
type AccountID int64

// transfer can be called only by the holder of the locks of both accounts.
func transfer(from, to lockrt.Held[AccountID], cents int) {
	fmt.Printf("%d cents from %d to %d\n", cents, from.ID(), to.ID())
}

// Code that lockgen generates returns an EntityMutex for each account, and an EntityMulti for
// several.
func ExampleEntityMulti() {
	client, stop := exampleClient()
	defer stop()
	spec := &gen.Spec{Name: "bank.Locks.Accounts", Wait: lockrt.UntilDone}
	accounts := func(ids ...AccountID) lockrt.EntityMulti[AccountID] {
		var keys []string
		for _, id := range ids {
			keys = append(keys, fmt.Sprintf("account:%d", id))
		}
		return gen.ForMulti(client, spec, ids, keys, nil)
	}
	err := accounts(7, 3).Do(context.Background(), func(_ context.Context, held lockrt.HeldMulti[AccountID]) error {
		each := held.Each()
		transfer(each[0], each[1], 100)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 100 cents from 7 to 3
	// <nil>
}

// Code that lockgen generates returns an EntityRWMutex for a page: writers and readers have different proofs.
func ExampleEntityRWMutex() {
	client, stop := exampleClient()
	defer stop()
	page := gen.ForRW(client, &gen.Spec{Name: "wiki.Locks.Page", Wait: lockrt.UntilDone}, "home", "page:home", nil)
	change := func(held lockrt.Held[string]) { fmt.Println("change", held.ID()) }
	read := func(held lockrt.HeldShared[string]) { fmt.Println("read", held.ID()) }
	ctx := context.Background()
	_ = page.RDo(ctx, func(_ context.Context, held lockrt.HeldShared[string]) error {
		read(held)
		return nil
	})
	_ = page.Do(ctx, func(_ context.Context, held lockrt.Held[string]) error {
		change(held)
		return nil
	})
	// Output:
	// read home
	// change home
}
