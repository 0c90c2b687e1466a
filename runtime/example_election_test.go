package lockrt_test

import (
	"context"
	"fmt"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

// One of several replicas relays messages; the others follow when it resigns, dies or is cut off.
func ExampleElection_Lead() {
	url, stop, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer stop()
	ctx := context.Background()
	client, err := lockrt.Open(ctx, url, lockrt.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	err = client.Election("relay").Lead(ctx, "10.0.0.7:8080", func(ctx context.Context, l *lockrt.Leadership) error {
		leader, err := client.Election("relay").Leader(ctx)
		fmt.Println(leader.Value, "leads, and knows it:", leader.Token == l.Token())
		return err // and so it resigns; a relay would go on until ctx ends
	})
	fmt.Println(err)
	// Output:
	// 10.0.0.7:8080 leads, and knows it: true
	// <nil>
}

// Observe is told each time that another one leads.
func ExampleElection_Observe() {
	url, stop, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer stop()
	ctx := context.Background()
	client, err := lockrt.Open(ctx, url, lockrt.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	election := client.Election("relay")
	var term *lockrt.Leadership
	for leader, err := range election.Observe(ctx) {
		if err != nil {
			panic(err)
		}
		switch {
		case leader.Token != 0:
			fmt.Println(leader.Value, "leads")
			if err := term.Resign(ctx); err != nil {
				panic(err)
			}
		case term == nil:
			fmt.Println("nobody leads")
			if term, err = election.Campaign(ctx, "a"); err != nil {
				panic(err)
			}
		default:
			fmt.Println("nobody leads any more")
			return
		}
	}
	// Output:
	// nobody leads
	// a leads
	// nobody leads any more
}

// Each hour is invoiced once, by whichever replica is the first, and an hour that was missed is made up for.
func ExampleClient_Every() {
	url, stop, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := lockrt.Open(ctx, url, lockrt.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	err = client.Every("invoices", time.Hour, func(ctx context.Context, t lockrt.Tick) error {
		from, to := t.Since(), t.Start
		fmt.Println("invoice what came in the", to.Sub(from), "before the full hour;", t.Missed, "hours were missed")
		cancel() // a service goes on until it is stopped
		return nil
	}).Run(ctx)
	fmt.Println(err)
	// Output:
	// invoice what came in the 1h0m0s before the full hour; 0 hours were missed
	// lockgen: every "invoices": context canceled
}
