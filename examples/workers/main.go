// Workers shows how permits bound the workers of all replicas of a service: each job needs a permit, and there are only
// three. A permit is a lease, so the permit of a dead worker becomes free.
//
//	go run ./examples/workers
//
// It starts a server inside the program, or uses the one that REDIS_URL names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
)

const (
	permits = 3 // jobs at a time, in all replicas together
	workers = 2 // in each replica
	jobs    = 4 // for each replica

	// A dead worker keeps its permit for the watchdog time. A machine may stand still for most of it, and no worker loses
	// its permit.
	watchdog = 6 * time.Second
)

// hanging is the replica whose jobs never end.
const hanging = "A"

// run does the jobs of one replica. Its workers share the jobs, and each acquires a permit for a job first.
func run(ctx context.Context, permits *lockrt.PermitSemaphore) error {
	queue := make(chan int, jobs)
	for n := range jobs {
		queue <- n + 1
	}
	close(queue)
	failed := make(chan error, workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range queue {
				job := func(ctx context.Context, _ *lockrt.Permit) error { return work(ctx, n) }
				err := permits.Do(ctx, job)
				for errors.Is(err, lockrt.ErrLost) { // the machine was paused: do the job again
					err = permits.Do(ctx, job)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed // nil if no worker failed
}

// work does one job, under a context that ends if the permit is lost.
func work(ctx context.Context, n int) error {
	replicas.Say("begins job %d", n)
	defer func() { replicas.Say("ends job %d", n) }()
	takes := 300 * time.Millisecond
	if replicas.Name() == hanging {
		takes = time.Hour
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return show(ctx, os.Getenv("REDIS_URL"), os.Stdout) }
	if replicas.Name() != "" {
		do = replica
	}
	if err := do(); err != nil {
		fmt.Fprintf(os.Stderr, "workers: %v\n", err)
		os.Exit(1)
	}
}

// pool is the environment variable with the name of the semaphore. Each run has another name.
const pool = "EXAMPLE_POOL"

func replica() error {
	ctx, _ := replicas.Join()
	client, err := lockrt.Open(ctx, os.Getenv("REDIS_URL"), lockrt.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := run(ctx, client.PermitSemaphore(os.Getenv(pool), permits, lockrt.WithWatchdog(watchdog))); err != nil {
		return err
	}
	replicas.Say("is done")
	<-ctx.Done()
	return nil
}

// show starts three replicas, kills the one that hangs and waits for the others.
func show(ctx context.Context, url string, out io.Writer) (err error) {
	url, stop, err := replicas.URL(url)
	if err != nil {
		return err
	}
	defer stop()
	client, err := lockrt.Open(ctx, url, lockrt.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	all := client.PermitSemaphore("example-workers:"+client.ID(), 0)
	if _, err := all.TrySetPermits(ctx, permits, time.Hour); err != nil { // with an expiry, so that it does not stay for ever
		return err
	}
	group, err := replicas.NewGroup(url, out, pool+"="+all.Key())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	if err := group.Start(hanging); err != nil {
		return err
	}
	if _, err := group.Await(ctx, "begins", "begins"); err != nil {
		return err
	}
	for _, name := range []string{"B", "C"} {
		if err := group.Start(name); err != nil {
			return err
		}
	}
	if _, err := group.Await(ctx, "ends"); err != nil {
		return err
	}
	group.Print("operator", "kills "+hanging+", which hangs: its permits come back when the watchdog time is over, "+watchdog.String())
	group.Kill(hanging)
	if _, err := group.Await(ctx, "is done", "is done"); err != nil {
		return err
	}
	permit, err := all.AcquireN(ctx, permits)
	if err != nil {
		return err
	}
	group.Print("operator", "has all permits: none is gone")
	return permit.Release(ctx)
}
