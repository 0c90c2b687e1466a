// Quickstart holds the code that the README shows, as a program:
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"os"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func main() {
	if err := run(context.Background(), os.Getenv("REDIS_URL")); err != nil {
		fmt.Fprintf(os.Stderr, "quickstart: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	locks, err := lockrt.Open(ctx, url, lockrt.Options{}) // redis://localhost:6379
	if err != nil {
		return err
	}
	defer locks.Close()
	svc := NewLockedService(orders{}, locks)
	if err := svc.Pay(ctx, &Order{ID: "42"}, 4200); err != nil { // holds order:42
		return err
	}
	if err := shipByHand(ctx, locks, "42"); err != nil {
		return err
	}
	return report(ctx, locks)
}
