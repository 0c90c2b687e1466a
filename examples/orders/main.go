// Orders shows what locks are for: several replicas of a shop, each a process of its own, receive
// the same payments at the same time, first without locks and then with them.
//
//	go run ./examples/orders
//
// It starts a server inside the program, or uses the one that REDIS_URL names:
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/orders
//
// The packages: shop is the service, with its locks declared on an interface; locks are the
// same locks taken by hand; demo is what starts the replicas, kills one, and counts.
//
// The exit code is 0 if orders were paid twice without locks, and none with them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockgen/lockgen/examples/orders/demo"
)

func main() {
	if demo.IsReplica() {
		os.Exit(status(demo.RunReplica()))
	}
	cfg := demo.Config{URL: os.Getenv("REDIS_URL"), Out: os.Stdout, Colour: colour(os.Stdout)}
	flag.IntVar(&cfg.Replicas, "replicas", 4, "how many processes")
	flag.IntVar(&cfg.Orders, "orders", 4, "how many orders")
	flag.DurationVar(&cfg.Work, "work", 80*time.Millisecond, "time between reading a record and writing it back")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo.Run(ctx, cfg)
	stop()
	os.Exit(status(err))
}

func status(err error) int {
	if err != nil {
		fmt.Fprintf(os.Stderr, "orders: %v\n", err)
		return 1
	}
	return 0
}

// colour reports whether f is a terminal whose owner did not ask for plain text.
func colour(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
