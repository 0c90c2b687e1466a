// Package replica is one process of the service: it serves the shop over HTTP.
package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/examples/service/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// Config is the configuration of a replica.
type Config struct {
	Addr     string // the address to listen on
	Redis    string // URL
	Postgres string // URL
	Partners string // URL of the bank and the carrier
	Unlocked bool   // without the locks of the annotations, to show what they are for

	// Drain is how long a stopping replica waits for the requests that it serves, 20s if it is 0. It has to be longer than
	// the longest request, whose locks would be left to expire, and than the 5s that http.Server.Shutdown waits for a
	// connection whose client has not sent a request yet.
	Drain time.Duration
}

// Run serves until ctx ends.
func Run(ctx context.Context, cfg Config) (err error) {
	store, err := shop.OpenStore(ctx, cfg.Postgres)
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := lockrt.Open(ctx, cfg.Redis, lockrt.Options{})
	if err != nil {
		return err
	}
	defer client.Close() // after Shutdown it does nothing

	inner := shop.New(store, &partners{cfg.Partners}, shop.NewLocks(client))
	service := shop.Service(shop.NewLockedService(inner, inner.Stored(), client))
	if cfg.Unlocked {
		service = inner
	}
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: Handler(service), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	replicas.Say("listens")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	// The order matters. The server stops first: no request begins any more, and those under way end. Then the locks:
	// Shutdown waits until they are released, and the next replica gets them at once. Close alone would leave them to
	// expire after their watchdog time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(cfg.Drain, drain))
	defer cancel()
	return errors.Join(server.Shutdown(ctx), client.Shutdown(ctx))
}

// An Outcome is the outcome of a request.
type Outcome string

// The outcomes of a request. After OK, Poor and SoldOut the caller is done. After all others it repeats the request, to
// the same or another replica: the request was not done, or its outcome is unknown.
const (
	OK          Outcome = "ok"
	Poor        Outcome = "poor"
	SoldOut     Outcome = "sold out"
	Refused     Outcome = "refused"     // impossible
	Busy        Outcome = "busy"        // another holder had the lock for the whole wait time
	Lost        Outcome = "lost"        // the lock was lost: done, or not
	Stale       Outcome = "stale"       // a later holder has used the row: not done
	Unavailable Outcome = "unavailable" // Redis does not answer
	Failed      Outcome = "failed"      // anything else: done, or not
)

// An Answer is the body of a response.
type Answer struct {
	Outcome Outcome
	Detail  string      `json:",omitempty"`
	Report  shop.Report `json:",omitzero"`
}

// answer returns the status and the body for a request that ended with err.
func answer(err error) (int, Answer) {
	status, outcome := http.StatusOK, OK
	switch {
	case err == nil:
		return status, Answer{Outcome: outcome}
	case errors.Is(err, lockrt.ErrLost): // before all others, which it can be joined with
		status, outcome = http.StatusServiceUnavailable, Lost
	case errors.Is(err, shop.ErrStale):
		status, outcome = http.StatusConflict, Stale
	case errors.Is(err, lockrt.ErrNotAcquired):
		status, outcome = http.StatusConflict, Busy
	case errors.Is(err, lockrt.ErrUnavailable), errors.Is(err, lockrt.ErrClosed):
		status, outcome = http.StatusServiceUnavailable, Unavailable
	case errors.Is(err, shop.ErrPoor):
		status, outcome = http.StatusUnprocessableEntity, Poor
	case errors.Is(err, shop.ErrSoldOut):
		status, outcome = http.StatusUnprocessableEntity, SoldOut
	case errors.Is(err, errInput), errors.Is(err, shop.ErrUnknown), errors.Is(err, shop.ErrSameWallet), errors.Is(err, shop.ErrUnpaid), errors.As(err, new(*lockrt.KeyError)):
		status, outcome = http.StatusUnprocessableEntity, Refused
	default:
		status, outcome = http.StatusInternalServerError, Failed
	}
	return status, Answer{Outcome: outcome, Detail: err.Error()}
}

// errInput means that the body of a request is unreadable.
var errInput = errors.New("body of the request")

const (
	longest = 15 * time.Second        // the time limit of a request
	drain   = longest + 5*time.Second // see Config.Drain
)

// Handler serves a shop.
func Handler(service shop.Service) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /reserve", call(service.Reserve))
	mux.Handle("POST /pay", call(service.Pay))
	mux.Handle("POST /transfer", call(service.Transfer))
	mux.Handle("POST /ship", call(service.Ship))
	mux.Handle("POST /report", respond(func(ctx context.Context, _ *http.Request) (Answer, error) {
		report, err := service.Report(ctx)
		return Answer{Outcome: OK, Report: report}, err
	}))
	return mux
}

// call serves a method whose argument is the body of the request.
func call[T any](method func(ctx context.Context, in *T) error) http.Handler {
	return respond(func(ctx context.Context, r *http.Request) (Answer, error) {
		in := new(T)
		if err := json.NewDecoder(r.Body).Decode(in); err != nil {
			return Answer{}, fmt.Errorf("%w: %w", errInput, err)
		}
		return Answer{Outcome: OK}, method(ctx, in)
	})
}

func respond(serve func(ctx context.Context, r *http.Request) (Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The context of a request ends when the client goes away, and has no deadline. wait=5s bounds the time until a
		// lock is acquired; this deadline bounds the rest, too.
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		status := http.StatusOK
		a, err := serve(ctx, r)
		if err != nil {
			status, a = answer(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // an error means that the client is gone
	})
}

// partners asks the bank and the carrier at url.
type partners struct{ url string }

var _ shop.Partners = (*partners)(nil)

func (p *partners) Check(ctx context.Context, id shop.OrderID) error { return p.ask(ctx, "check", id) }

func (p *partners) Label(ctx context.Context, id shop.OrderID) error { return p.ask(ctx, "label", id) }

func (p *partners) ask(ctx context.Context, what string, id shop.OrderID) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/"+what+"/"+url.PathEscape(string(id)), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", what, id, response.Status)
	}
	return nil
}
