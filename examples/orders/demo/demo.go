// Package demo runs replicas of the shop as processes, in two acts, and counts what they did.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockgen/lockgen/examples/orders/locks"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

// Config configures a run.
type Config struct {
	URL      string        // of a Redis server; empty starts one in this process
	Replicas int           // at least 3, since one is killed
	Orders   int           // at least 3
	Work     time.Duration // how long a replica works between reading and writing
	Out      io.Writer
	Colour   bool
}

// Run runs both acts and prints what happens, then a summary. It fails unless the first act shows
// damage and the second shows none.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Replicas < 3 || cfg.Orders < 3 || cfg.Work <= 0 {
		return errors.New("at least 3 replicas, 3 orders and some time to work are needed")
	}
	server := "the server of REDIS_URL"
	if cfg.URL == "" {
		url, stop, err := embedded.Start()
		if err != nil {
			return fmt.Errorf("start the embedded server: %w", err)
		}
		defer stop()
		cfg.URL = url
		server = "a server inside this program, since REDIS_URL is not set"
	}
	rc, err := connect(cfg.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer rc.Close()
	operator, err := lockrt.Open(ctx, cfg.URL, lockrt.Options{})
	if err != nil {
		return err
	}
	defer operator.Close()

	p := &printer{out: cfg.Out, colour: cfg.Colour}
	p.line("%d orders, %d replicas in processes of their own, on %s.", cfg.Orders, cfg.Replicas, server)
	p.line("Every payment is delivered to every replica. %d pieces of tea are in stock.", stockOf(cfg.Orders))

	p.title("Act one: without locks")
	p.line("Nothing is shipped here: Ship asks for a proof that the order's lock is held.")
	without, err := (&act{cfg: cfg, rc: rc, printer: p}).run(ctx)
	if err != nil {
		return fmt.Errorf("act one: %w", err)
	}
	p.title("Act two: with locks")
	p.line("The bank never answers the first calls for %s and %s. An operator kills the replica that holds", crashOrder, takenOrder)
	p.line("%s: its lock comes free when its watchdog time, %v, is over. The lock of %s is taken by force.", crashOrder, watchdog, takenOrder)
	with, err := (&act{cfg: cfg, rc: rc, printer: p, locks: locks.NewLocks(operator)}).run(ctx)
	if err != nil {
		return fmt.Errorf("act two: %w", err)
	}
	p.title("Summary")
	p.table(without, with)
	p.line("")
	p.line("To see who holds what while services run: make lockctl, then ./bin/lockctl list, show KEY and why KEY with")
	p.line("-url or REDIS_URL. docs/operating.md says what to do when one hangs.")
	return verdict(cfg, without, with)
}

// verdict returns an error if the summary shows something wrong.
func verdict(cfg Config, without, with tally) error {
	switch {
	case without.double() == 0:
		return errors.New("act one: no order was paid twice, so nothing was shown; try a longer -work")
	case with.double() > 0:
		return fmt.Errorf("act two: %d payments too many in spite of the locks", with.double())
	case with.oversold() > 0:
		return fmt.Errorf("act two: %d pieces oversold in spite of the locks", with.oversold())
	case with.reports != 1:
		return fmt.Errorf("act two: %d reports of one day", with.reports)
	case with.paid() != cfg.Orders:
		return fmt.Errorf("act two: %d of %d orders paid", with.paid(), cfg.Orders)
	}
	return nil
}
