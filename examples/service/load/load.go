// Package load sends requests to three replicas of the service, kills and pauses replicas and restarts Redis meanwhile, and audits the
// books at the end.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/examples/service/replica"
	"github.com/lockgen/lockgen/examples/service/shop"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The environment variables of a replica.
const (
	addrsVar    = "EXAMPLE_ADDRESSES" // name=address,name=address
	postgresVar = "EXAMPLE_POSTGRES"
	partnersVar = "EXAMPLE_PARTNERS"
	unlockedVar = "EXAMPLE_UNLOCKED"
)

// FromEnvironment returns the configuration of the replica of that name, from its environment.
func FromEnvironment(name string, getenv func(string) string) replica.Config {
	cfg := replica.Config{
		Redis: getenv("REDIS_URL"), Postgres: getenv(postgresVar), Partners: getenv(partnersVar), Unlocked: getenv(unlockedVar) != "",
	}
	for entry := range strings.SplitSeq(getenv(addrsVar), ",") {
		if of, addr, _ := strings.Cut(entry, "="); of == name {
			cfg.Addr = addr
		}
	}
	return cfg
}

var names = []string{"A", "B", "C"}

const (
	wallets  = 8
	items    = 3
	callers  = 8                // at the same time
	patience = 20 * time.Second // with one request
	mostOnce = 4                // labels at once, as the annotation of Ship declares
)

// A Fleet is three replicas with their servers and partners.
type Fleet struct {
	store    *shop.Store
	partners *partners
	group    *replicas.Group
	addrs    map[string]string
	release  []func() // free the ports
	client   *http.Client
	before   Books

	mu       sync.Mutex
	outcomes map[replica.Outcome]int // "" for requests without an answer
	orders   []*shop.Order
}

// NewFleet starts three replicas on the Redis and the PostgreSQL at these URLs and returns when they listen. Their
// output goes to out.
func NewFleet(ctx context.Context, redis, postgres string, out io.Writer, unlocked bool) (f *Fleet, err error) {
	f = &Fleet{addrs: map[string]string{}, client: &http.Client{Timeout: patience}, outcomes: map[replica.Outcome]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.store, err = shop.OpenStore(ctx, postgres); err != nil {
		return f, err
	}
	if f.partners, err = startPartners(); err != nil {
		return f, err
	}
	var addrs []string
	for _, name := range names {
		port, release, err := redistest.ReservePort()
		if err != nil {
			return f, err
		}
		f.release = append(f.release, release)
		f.addrs[name] = "127.0.0.1:" + strconv.Itoa(port)
		addrs = append(addrs, name+"="+f.addrs[name])
	}
	env := []string{addrsVar + "=" + strings.Join(addrs, ","), postgresVar + "=" + postgres, partnersVar + "=" + f.partners.url}
	if unlocked {
		env = append(env, unlockedVar+"=1")
	}
	if f.group, err = replicas.NewGroup(redis, out, env...); err != nil {
		return f, err
	}
	for _, name := range names {
		if err := f.group.Start(name); err != nil {
			return f, err
		}
	}
	_, err = f.group.Await(ctx, "listens", "listens", "listens")
	return f, err
}

// Close stops the replicas and ends the connections.
func (f *Fleet) Close() (err error) {
	f.client.CloseIdleConnections() // a replica that stops would wait for those without a request
	if f.group != nil {
		err = f.group.Close()
	}
	for _, release := range f.release {
		release()
	}
	if f.partners != nil {
		err = errors.Join(err, f.partners.server.Close())
	}
	if f.store != nil {
		f.store.Close()
	}
	return err
}

// Stock fills the database: wallets, orders, and items for three quarters of the orders.
func (f *Fleet) Stock(ctx context.Context, orders int) error {
	perItem, perWallet := orders*3/4/items, 1000*orders*(1+orders/1000)
	f.before = Books{Cents: int64(wallets * perWallet), Pieces: int64(items * perItem)}
	for i := range wallets {
		if _, err := f.store.DB().Exec(ctx, `INSERT INTO wallets VALUES ($1, $2)`, wallet(i), perWallet); err != nil {
			return err
		}
	}
	for i := range items {
		if _, err := f.store.DB().Exec(ctx, `INSERT INTO items VALUES ($1, $2)`, item(i), perItem); err != nil {
			return err
		}
	}
	for i := range orders {
		o := &shop.Order{ID: shop.OrderID("order-" + strconv.Itoa(i)), Wallet: wallet(i), Item: item(i), Pieces: 1, Cents: int64(100 + i)}
		if err := f.order(ctx, o); err != nil {
			return err
		}
		f.orders = append(f.orders, o)
	}
	return nil
}

func (f *Fleet) order(ctx context.Context, o *shop.Order) error {
	_, err := f.store.DB().Exec(ctx, `INSERT INTO orders VALUES ($1, $2)`, o.ID, o.Cents)
	return err
}

func wallet(i int) shop.WalletID { return shop.WalletID("wallet-" + strconv.Itoa(i%wallets)) }

func item(i int) shop.ItemID { return shop.ItemID("item-" + strconv.Itoa(i%items)) }

// ask sends one request to a replica.
func (f *Fleet) ask(ctx context.Context, name, path string, in any) (replica.Answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return replica.Answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addrs[name]+path, bytes.NewReader(body))
	if err != nil {
		return replica.Answer{}, err
	}
	var a replica.Answer
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.outcomes[a.Outcome]++
	}()
	response, err := f.client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&a)
	return a, err
}

// insist sends a request to one replica after the other until one has done it or refuses it for good. It begins with
// the named replica.
func (f *Fleet) insist(ctx context.Context, first, path string, in any) (replica.Outcome, error) {
	begin := 0
	for names[begin] != first {
		begin++
	}
	for i := begin; ; i++ {
		a, err := f.ask(ctx, names[i%len(names)], path, in)
		if err == nil {
			switch a.Outcome {
			case replica.OK, replica.Poor, replica.SoldOut:
				return a.Outcome, nil
			case replica.Refused:
				return a.Outcome, fmt.Errorf("load: %s: %s", path, a.Detail)
			}
		}
		if ctx.Err() != nil {
			return "", errors.Join(fmt.Errorf("load: %s: %w, last answer: %s", path, context.Cause(ctx), a.Detail), err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// both sends a request to two replicas at once, like a message that is delivered twice, and returns the first outcome.
func (f *Fleet) both(ctx context.Context, path string, in any) (replica.Outcome, error) {
	i := rand.IntN(len(names))
	second := make(chan error, 1)
	go func() {
		_, err := f.insist(ctx, names[(i+1)%len(names)], path, in)
		second <- err
	}()
	outcome, err := f.insist(ctx, names[i], path, in)
	return outcome, errors.Join(err, <-second)
}

// sell makes all requests of one order.
func (f *Fleet) sell(ctx context.Context, o *shop.Order) error {
	for _, path := range []string{"/reserve", "/pay", "/ship"} {
		if outcome, err := f.both(ctx, path, o); err != nil || outcome != replica.OK {
			return err
		}
	}
	return nil
}

// Sell makes callers sell the orders from one number up to another. After each of them it moves money between two
// wallets, and after every tenth it requests a report.
func (f *Fleet) Sell(ctx context.Context, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	failed := make(chan error, callers)
	for range callers {
		go func() {
			failed <- func() error {
				for {
					i := int(next.Add(1)) - 1
					if i >= to {
						return nil
					}
					if err := f.sell(ctx, f.orders[i]); err != nil {
						return err
					}
					t := &shop.Transfer{ID: shop.TransferID("transfer-" + strconv.Itoa(i)), From: wallet(i), To: wallet(i + 1 + rand.IntN(wallets-1)), Cents: int64(1 + rand.IntN(1000))}
					if _, err := f.both(ctx, "/transfer", t); err != nil {
						return err
					}
					if i%10 == 0 {
						if _, err := f.insist(ctx, names[i/10%len(names)], "/report", nil); err != nil {
							return err
						}
					}
				}
			}()
		}()
	}
	var errs []error
	for range callers {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// Audit looks for inconsistencies in the database. Once everything is sold, no piece may be left.
func (f *Fleet) Audit(ctx context.Context) error {
	return Audit(ctx, f.store.DB(), f.before)
}

// count returns how many requests had one of these outcomes.
func (f *Fleet) count(outcomes ...replica.Outcome) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, outcome := range outcomes {
		n += f.outcomes[outcome]
	}
	return n
}
