package generatedtest_test

import (
	"context"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// orders is the service behind the wrapper: every method calls do.
type orders struct {
	do func(ctx context.Context) error
}

func (o orders) Pay(ctx context.Context, _ *gen.Order, _ int64) (string, error) {
	return "receipt", o.do(ctx)
}
func (o orders) Ship(ctx context.Context, _ gen.OrderID) error                  { return o.do(ctx) }
func (o orders) Soon(gen.OrderID) (int, error)                                  { return 3, o.do(context.Background()) }
func (o orders) Transfer(ctx context.Context, _ *gen.Order, _ gen.UserID) error { return o.do(ctx) }
func (o orders) Nightly(ctx context.Context, _ string) error                    { return o.do(ctx) }
func (o orders) Sweep(ctx context.Context, _ string)                            { _ = o.do(ctx) }
func (o orders) Global(ctx context.Context) error                               { return o.do(ctx) }
func (o orders) Audited(ctx context.Context, _ gen.Order) error                 { return o.do(ctx) }
func (o orders) Tagged(ctx context.Context, _ string, _ gen.Region) error       { return o.do(ctx) }
func (o orders) Export(ctx context.Context, _ io.Writer, p ...string) (int, error) {
	return len(p), o.do(ctx)
}
func (o orders) Lines(ctx context.Context, _ gen.OrderID) (iter.Seq[string], error) {
	return func(func(string) bool) {}, o.do(ctx)
}

// A replica is one process as Redis sees it: a client of its own and a wrapper on it.
type replica struct {
	*gen.LockedOrders
	locks *lockrt.Client
}

// unhurried is the time in which Redis answers: a busy machine may stand still for longer than the default.
const unhurried = 15 * time.Second

// newReplica wraps do on a new client of the shared server.
func newReplica(t *testing.T, do func(ctx context.Context) error) replica {
	t.Helper()
	client, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return replica{gen.NewLockedOrders(orders{do}, client), client}
}

// newID returns an id that no other test has.
func newID(t *testing.T) gen.OrderID { return gen.OrderID(redistest.Key(t, "id")) }

// patient returns a context that ends when a test has waited long enough.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive returns the next value of ch, or fails.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-patient(t).Done():
		require.FailNow(t, "waited too long for "+what)
		panic("unreachable")
	}
}

// held returns how many of the keys are locked.
func held(t *testing.T, keys ...string) int64 {
	t.Helper()
	opts, err := rueidis.ParseURL(redistest.Shared(t).URL())
	require.NoError(t, err)
	opts.DisableCache = true
	rc, err := rueidis.NewClient(opts)
	require.NoError(t, err)
	defer rc.Close()
	n, err := rc.Do(patient(t), rc.B().Exists().Key(keys...).Build()).AsInt64()
	require.NoError(t, err)
	return n
}

// freed returns when Redis has none of the keys: a request that was answered late, and was sent once more, may lock a key again after it was
// unlocked, until it is withdrawn.
func freed(t *testing.T, keys ...string) {
	t.Helper()
	comes(t, "the keys are gone", func() bool { return held(t, keys...) == 0 })
}

func nothing(context.Context) error { return nil }
