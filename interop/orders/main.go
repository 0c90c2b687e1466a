// Orders makes a Go service and a Java service take payments for the same orders at the same time, first without locks
// and then with them.
//
//	go run ./orders
//
// The Go service is that of examples/orders/shop, whose locks are declared on an interface; the Java service is Teller
// in java/src/main/java/shop, and takes its locks from Redisson. It uses the server that REDIS_URL names, or starts
// a redis-server, and needs a JDK and Maven.
//
// The exit code is 0 if orders were paid more than once without locks, and none with them.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/examples/orders/shop"
	"github.com/lockgen/lockgen/interop/redisson"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func main() {
	java := flag.String("java", "java", "the directory of the Java programs")
	version := flag.String("redisson", "", "the version of Redisson; that of pom.xml if empty")
	n := flag.Int("orders", 8, "how many orders")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *java, *version, *n)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "orders: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, java, version string, n int) error {
	if version == "" {
		var err error
		if version, err = redisson.Newest(java); err != nil {
			return err
		}
	}
	path, err := redisson.Classpath(java, version)
	if err != nil {
		return err
	}
	url := os.Getenv("REDIS_URL")
	if url == "" {
		var stop func()
		if url, stop, err = startServer(ctx); err != nil {
			return err
		}
		defer stop()
	}
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	rc, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	defer rc.Close()

	for _, locked := range []bool{false, true} {
		a := act{rc: rc, url: url, path: path, locked: locked}
		for i := range n {
			a.orders = append(a.orders, fmt.Sprintf("A-%d", i+1))
		}
		more, err := a.run(ctx)
		for tries := 1; err == nil && !locked && more == 0 && tries < 5; tries++ { // one service was ahead of the other
			more, err = a.run(ctx)
		}
		if err != nil {
			return err
		}
		switch {
		case !locked && more == 0:
			return errors.New("without locks no order was paid twice")
		case locked && more > 0:
			return fmt.Errorf("with locks %d orders were paid more than once", more)
		}
	}
	return nil
}

// An act is one run of both services over all orders.
type act struct {
	rc        rueidis.Client
	url, path string
	locked    bool
	orders    []string
}

// run returns how many orders were paid more than once.
func (a *act) run(ctx context.Context) (more int, err error) {
	how := "unlocked"
	if a.locked {
		how = "locked"
	}
	fmt.Printf("--- %s\n", how)
	name := "lockgen-interop:" + rand.Text()[:8]
	b := &bank{rc: a.rc, name: name + ":ledger"}
	store := shop.NewStore(a.rc, name+":store")
	defer func() {
		err = errors.Join(err, a.rc.Do(ctx, a.rc.B().Del().Key(name+":store", b.name).Build()).Error())
	}()
	for _, id := range a.orders {
		if err := store.SaveOrder(ctx, &shop.Order{ID: shop.OrderID(id), Item: "tea", Cents: 499}); err != nil {
			return 0, err
		}
	}

	// The Go service.
	var service shop.Service = shop.New(store, b, 50*time.Millisecond)
	if a.locked {
		client, err := lockrt.Open(ctx, a.url, lockrt.Options{Watchdog: 2 * time.Second})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		service = shop.NewLockedService(service, client)
	}

	// The Java service.
	java := exec.CommandContext(ctx, "java", append([]string{
		"-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", a.path, "shop.Teller",
		a.url, name + ":store", b.name, how,
	}, a.orders...)...)
	java.Stderr = os.Stderr
	in, err := java.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := java.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err = java.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, java.Wait()) }()
	lines := bufio.NewScanner(out)
	await := func(said string) {
		for lines.Scan() && lines.Text() != said {
		}
	}
	await("ready")

	// Both services get all payments at once.
	if _, err = io.WriteString(in, "\n"); err != nil {
		return 0, err
	}
	await("begins")
	var wg sync.WaitGroup
	for _, id := range a.orders {
		wg.Go(func() {
			switch _, err := service.Pay(ctx, shop.Payment{Order: shop.OrderID(id), Cents: 499}); {
			case err == nil:
				fmt.Printf("Go:   paid order %s\n", id)
			case errors.Is(err, shop.ErrPaid):
				fmt.Printf("Go:   order %s is paid already\n", id)
			default:
				fmt.Printf("Go:   order %s: %v\n", id, err)
			}
		})
	}
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	wg.Wait()
	paid, err := a.rc.Do(ctx, a.rc.B().Hgetall().Key(b.name).Build()).AsIntMap()
	if err != nil {
		return 0, err
	}
	for _, id := range a.orders {
		switch times := paid[id]; {
		case times == 0:
			return more, fmt.Errorf("order %s was not paid", id)
		case times > 1:
			more++
		}
	}
	fmt.Printf("%d of %d orders were paid more than once\n", more, len(a.orders))
	return more, nil
}

// A bank moves money at every request, also a repeated one. Its ledger counts the requests.
type bank struct {
	rc   rueidis.Client
	name string
}

// Charge moves the money.
func (b *bank) Charge(ctx context.Context, p shop.Payment) (string, error) {
	times, err := b.rc.Do(ctx, b.rc.B().Hincrby().Key(b.name).Field(string(p.Order)).Increment(1).Build()).AsInt64()
	return string(p.Order) + "/" + strconv.FormatInt(times, 10), err
}

// startServer runs a redis-server until it is stopped.
func startServer(ctx context.Context) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	server := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	out, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err = server.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "Ready to accept connections") {
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return "redis://127.0.0.1:" + port, func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}, nil
}
