// Transfer moves money between accounts, from several processes at once: each transfer locks two accounts, all or none,
// and the functions that read and write an account require the proof that it is locked.
//
//	go run ./examples/transfer
//
// It starts a server inside the program, or uses the one that REDIS_URL names. The exit code is 0 if there is as
// much money afterwards as there was before.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
)

var accounts = []AccountID{"ann", "bob", "eve", "tom", "zoe"}

const (
	cents     = 1000 // in each account
	tellers   = 4    // in each replica
	transfers = 50   // for each teller
)

// work makes tellers move money between random accounts.
func work(ctx context.Context, b *bank) error {
	failed := make(chan error, tellers)
	var group sync.WaitGroup
	for range tellers {
		group.Go(func() {
			for range transfers {
				from, to := accounts[rand.IntN(len(accounts))], accounts[rand.IntN(len(accounts))]
				if err := b.transfer(ctx, from, to, rand.Int64N(cents)); err != nil && !errors.Is(err, errPoor) {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed // nil if no teller failed
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return show(ctx, os.Getenv("REDIS_URL"), os.Stdout) }
	if replicas.Name() != "" {
		do = replica
	}
	if err := do(); err != nil {
		fmt.Fprintf(os.Stderr, "transfer: %v\n", err)
		os.Exit(1)
	}
}

// books is the environment variable that names the accounts of a run in the store.
const books = "EXAMPLE_BOOKS"

func replica() error {
	ctx, _ := replicas.Join()
	bank, closeBank, err := open(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	defer closeBank()
	bank.store.name = os.Getenv(books)
	replicas.Say("is open")
	if err := work(ctx, bank); err != nil {
		return err
	}
	replicas.Say("is done")
	<-ctx.Done()
	return nil
}

// open returns a bank on the server at url, and a function that closes it.
func open(url string) (b *bank, closeBank func(), err error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	option.DisableCache, option.ForceSingleClient = true, true
	rc, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	client, err := lockrt.Open(context.Background(), url, lockrt.Options{})
	if err != nil {
		rc.Close()
		return nil, nil, err
	}
	b = &bank{store: &store{rc: rc, name: "example-transfer:" + client.ID()}, locks: NewLocks(client)}
	return b, func() { _ = client.Close(); rc.Close() }, nil
}

// show opens accounts and three replicas that move money between them, and counts it.
func show(ctx context.Context, url string, out io.Writer) (err error) {
	url, stop, err := replicas.URL(url)
	if err != nil {
		return err
	}
	defer stop()
	bank, closeBank, err := open(url)
	if err != nil {
		return err
	}
	defer closeBank()
	defer func() { err = errors.Join(err, bank.store.drop(context.WithoutCancel(ctx))) }()
	for _, id := range accounts {
		if err := bank.store.save(ctx, id, cents); err != nil {
			return err
		}
	}
	before, err := bank.total(ctx, accounts...)
	if err != nil {
		return err
	}

	group, err := replicas.NewGroup(url, out, books+"="+bank.store.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	for _, name := range []string{"A", "B", "C"} {
		if err := group.Start(name); err != nil {
			return err
		}
	}
	if _, err := group.Await(ctx, "is open", "is open", "is open"); err != nil {
		return err
	}
	between, err := bank.total(ctx, accounts...)
	if err != nil {
		return err
	}
	group.Print("audit", fmt.Sprintf("counts %d cents while they work", between))
	if _, err := group.Await(ctx, "is done", "is done", "is done"); err != nil {
		return err
	}
	after, err := bank.total(ctx, accounts...)
	if err != nil {
		return err
	}
	group.Print("audit", fmt.Sprintf("counts %d cents after %d transfers, there were %d", after, 3*tellers*transfers, before))
	if between != before || after != before {
		return errors.New("the books do not balance")
	}
	return nil
}
