// Fencing shows what no lock can do alone, and how a token helps. A process is paused while it holds a lock, for longer
// than its lease; another process acquires the lock and writes. When the first process resumes, its write is already on
// the way. The database refuses this write, since its token is smaller than one that the database has seen.
//
//	go run ./examples/fencing
//
// It starts a server inside the program, or uses the one that REDIS_URL names. It needs Unix, where a process can pause
// itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return show(ctx, os.Getenv("REDIS_URL"), os.Stdout) }
	if replicas.Name() != "" {
		do = replica
	}
	if err := do(); err != nil {
		fmt.Fprintf(os.Stderr, "fencing: %v\n", err)
		os.Exit(1)
	}
}

// databaseURL is the environment variable that has the address of the database.
const databaseURL = "EXAMPLE_DATABASE"

// replica ships the order, as the replica of this name does.
func replica() error {
	ctx, _ := replicas.Join()
	client, err := lockrt.Open(ctx, os.Getenv("REDIS_URL"), lockrt.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	service := NewLockedOrders(&orders{database: os.Getenv(databaseURL), stops: replicas.Name() == "slow"}, client)
	carrier := map[string]string{"slow": "pigeon", "quick": "truck"}[replicas.Name()]
	if err := service.Ship(ctx, "42", carrier); err != nil {
		replicas.Say("was refused: %v", err)
		if !errors.Is(err, errStale) || !errors.Is(err, lockrt.ErrLost) {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func show(ctx context.Context, url string, out io.Writer) (err error) {
	url, stop, err := replicas.URL(url)
	if err != nil {
		return err
	}
	defer stop()
	db := &database{rows: map[string]row{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: db, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	group, err := replicas.NewGroup(url, out, databaseURL+"=http://"+listener.Addr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()

	if err := group.Start("slow"); err != nil {
		return err
	}
	if _, err := group.Await(ctx, "holds the lock"); err != nil {
		return err
	}
	if err := group.Start("quick"); err != nil { // acquires the lock when the watchdog time is over
		return err
	}
	if _, err := group.Await(ctx, "has shipped"); err != nil {
		return err
	}
	if err := group.Resume("slow"); err != nil {
		return err
	}
	if _, err := group.Await(ctx, "was refused"); err != nil {
		return err
	}
	group.Print("database", "says that order 42 was shipped by "+db.carrier("42"))
	return nil
}
