package lockrt_test

import (
	"context"
	"fmt"
	"sync"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

// exampleClient returns a client of a server inside of the program.
func exampleClient() (client *lockrt.Client, stop func()) {
	url, stopServer, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	client, err = lockrt.Open(context.Background(), url, lockrt.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		stopServer()
	}
}

// Ten jobs, of which three processes' worth may run at once, wherever they run.
func ExamplePermitSemaphore() {
	client, stop := exampleClient()
	defer stop()
	jobs := client.PermitSemaphore("jobs", 3)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			err := jobs.Do(context.Background(), func(ctx context.Context, _ *lockrt.Permit) error {
				return ctx.Err() // work under ctx: it ends if the permit is lost
			})
			if err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
	free, err := jobs.Available(context.Background())
	fmt.Println(free, err)
	// Output: 3 <nil>
}

// A budget of requests that anybody may take from and add to.
func ExampleSemaphore() {
	client, stop := exampleClient()
	defer stop()
	ctx := context.Background()
	budget := client.Semaphore("budget", 100)
	if err := budget.Acquire(ctx, 30); err != nil {
		panic(err)
	}
	fmt.Println(budget.TryAcquire(ctx, 80))
	if err := budget.Release(ctx, 10); err != nil {
		panic(err)
	}
	fmt.Println(budget.TryAcquire(ctx, 80))
	// Output:
	// lockgen: try acquire "budget": not acquired
	// <nil>
}

// One waits until all the others are done.
func ExampleCountDownLatch() {
	client, stop := exampleClient()
	defer stop()
	ctx := context.Background()
	done := client.CountDownLatch("import:42")
	if _, err := done.SetCount(ctx, 3); err != nil {
		panic(err)
	}
	for range 3 {
		go func() { _, _ = done.CountDown(ctx) }()
	}
	fmt.Println(done.Wait(ctx))
	// Output: <nil>
}
