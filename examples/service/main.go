// Service is a shop as it runs in production: three replicas, each a process that serves HTTP, share one PostgreSQL and one Redis. It
// sells orders, and meanwhile kills a replica, restarts Redis and pauses a replica.
//
//	go run .
//
// It starts PostgreSQL and Redis in temporary directories. Both have to be installed: make service, in the root of the
// repository, installs them if they are missing. It needs Unix, where a process can be paused. The exit code is 0 if
// everything was done once, nothing was oversold, and another replica acquired the locks of the killed one.
//
// The packages: shop has the annotated interfaces, their implementation, and fencing in SQL; replica is a process of
// the service; servers starts PostgreSQL and Redis; load sends the requests, breaks things and audits the books.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/examples/service/load"
	"github.com/lockgen/lockgen/examples/service/replica"
	"github.com/lockgen/lockgen/examples/service/servers"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "service: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	if name := replicas.Name(); name != "" {
		ctx, lines := replicas.Join()
		go func() {
			for line := range lines {
				if line == "pause" {
					replicas.Say("stops")
					_ = replicas.Pause() // an error means that the process is not paused, which the load notices
					replicas.Say("runs on")
				}
			}
		}()
		return replica.Run(ctx, load.FromEnvironment(name, os.Getenv))
	}
	orders := flag.Int("orders", 200, "how many orders, at least 12")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return show(ctx, *orders, os.Stdout)
}

// show starts the servers and runs the load on them.
func show(ctx context.Context, orders int, out io.Writer) (err error) {
	if orders < 12 {
		return fmt.Errorf("-orders=%d: at least 12 are needed", orders)
	}
	redis, err := servers.Redis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	postgres, err := servers.Postgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	return load.Run(ctx, load.Config{
		Redis: redis.URL, Postgres: postgres.URL, Orders: orders, Out: out,
		RestartRedis: func(ctx context.Context) error {
			redis.Kill()
			return redis.Start(ctx)
		},
	})
}
