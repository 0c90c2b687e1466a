// Leader shows how one of several replicas leads. The leader can resign. Its context ends if it loses the lead, and
// another replica leads if it dies. An operator, who is no candidate, sees which replica leads.
//
//	go run ./examples/leader
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
	"time"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// office is the environment variable with the name of the election. Each run has another name.
const office = "EXAMPLE_OFFICE"

// errResigned is the error of a leader that resigned.
var errResigned = errors.New("resigned")

// stand makes this replica lead whenever it is elected, until ctx ends.
func stand(ctx context.Context, election *lockrt.Election, told <-chan string) error {
	for ctx.Err() == nil {
		err := election.Lead(ctx, replicas.Name(), func(ctx context.Context, _ *lockrt.Leadership) error { return lead(ctx, told) })
		switch {
		case errors.Is(err, errResigned):
			replicas.Say("has resigned")
		case ctx.Err() == nil:
			return err
		}
	}
	return nil
}

// lead does the leader's work until ctx ends, which happens when the lead is lost. Then another replica may lead, and
// this one stands for election again.
func lead(ctx context.Context, told <-chan string) error {
	replicas.Say("leads")
	select {
	case <-told:
		return errResigned
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, lockrt.ErrLost) {
			replicas.Say("has lost the lead: %v", cause)
		}
		return ctx.Err()
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
		fmt.Fprintf(os.Stderr, "leader: %v\n", err)
		os.Exit(1)
	}
}

func replica() error {
	ctx, told := replicas.Join()
	client, err := lockrt.Open(ctx, os.Getenv("REDIS_URL"), lockrt.Options{Hooks: lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { replicas.Say("stands in line") },
	}})
	if err != nil {
		return err
	}
	defer client.Close()
	return stand(ctx, client.Election(os.Getenv(office), lockrt.WithWatchdog(6*time.Second)), told)
}

// show starts three replicas and waits until each of them has led.
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
	election := client.Election("example-leader:" + client.ID())
	group, err := replicas.NewGroup(url, out, office+"="+election.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	var leader string
	for _, name := range []string{"A", "B", "C"} {
		if err := group.Start(name); err != nil {
			return err
		}
		if leader == "" {
			leader, err = group.Await(ctx, "leads")
		} else {
			_, err = group.Await(ctx, "stands in line")
		}
		if err != nil {
			return err
		}
	}
	seen, err := election.Leader(ctx)
	if err != nil {
		return err
	}
	group.Print("operator", "sees that "+seen.Value+" leads")
	group.Print("operator", "asks "+leader+" to resign: the next one leads at once")
	group.Tell(leader, "resign")
	if leader, err = group.Await(ctx, "leads", "has resigned"); err != nil {
		return err
	}
	group.Print("operator", "kills "+leader+": the next one leads when its lease is over")
	group.Kill(leader)
	if leader, err = group.Await(ctx, "leads"); err != nil {
		return err
	}
	group.Print("operator", "takes the lock of the election from "+leader+" by force: it is told, and another one leads")
	if _, err := client.Mutex(election.Name()).ForceUnlock(ctx); err != nil {
		return err
	}
	_, err = group.Await(ctx, "leads", "has lost the lead")
	return err
}
