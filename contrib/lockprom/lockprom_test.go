package lockprom_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/internal/meter"
	"github.com/lockgen/lockgen/contrib/lockprom"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// value returns the value of the series of a metric with these labels, and for a histogram the number of its
// observations.
func value(t *testing.T, from prometheus.Gatherer, metric string, labels ...string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(got, ",") != strings.Join(labels, ",") {
				continue
			}
			switch {
			case m.GetHistogram() != nil:
				require.Nil(t, m.GetHistogram().Schema, "a native histogram, of which the alerts and the panels know nothing")
				require.NotEmpty(t, m.GetHistogram().GetBucket())
				return float64(m.GetHistogram().GetSampleCount())
			case m.GetGauge() != nil:
				return m.GetGauge().GetValue()
			default:
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func open(t *testing.T, m *lockprom.Metrics, next lockrt.Hooks) *lockrt.Client {
	t.Helper()
	opts := lockrt.Options{OpTimeout: 15 * time.Second, Watchdog: 6 * time.Second, Hooks: m.Hooks(next)}
	c, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), opts)
	for tries := 0; err != nil && tries < 3; tries++ { // the machine may stand still for longer than Open waits
		c, err = lockrt.Open(t.Context(), redistest.Shared(t).URL(), opts)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMetrics_OfARealLock(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	waiting, renewed, lost := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{}, 100)
	c := open(t, metrics, lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
		Renewed: func(context.Context, lockrt.RenewEvent) { renewed <- struct{}{} },
		Ended: func(_ context.Context, e lockrt.EndEvent) {
			if e.Reason == lockrt.EndTaken {
				lost <- struct{}{}
			}
		},
	})
	kind, pay := "kind=mutex", "name=orders.Service.Pay"
	m := c.Mutex(redistest.Key(t, "k"), lockrt.WithName("orders.Service.Pay"))
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, value(t, registry, "lockgen_held", kind, pay))
	require.EqualValues(t, 1, value(t, registry, "lockgen_acquire_duration_seconds", "contended=false", kind, pay, "outcome=acquired"))
	<-renewed
	require.Positive(t, value(t, registry, "lockgen_renewals_total", kind, pay, "result=ok"))

	next := make(chan *lockrt.Lease, 1)
	go func() {
		lease, _ := m.Lock(context.Background())
		next <- lease
	}()
	<-waiting
	require.EqualValues(t, 1, value(t, registry, "lockgen_waiting", kind, pay))
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.EqualValues(t, 1, value(t, registry, "lockgen_acquire_duration_seconds", "contended=false", kind, pay, "outcome=busy"))
	require.NoError(t, lease.Unlock(t.Context()))
	lease = <-next
	require.NotNil(t, lease)
	require.EqualValues(t, 0, value(t, registry, "lockgen_waiting", kind, pay))
	require.EqualValues(t, 1, value(t, registry, "lockgen_acquire_duration_seconds", "contended=true", kind, pay, "outcome=acquired"))
	require.EqualValues(t, 1, value(t, registry, "lockgen_hold_duration_seconds", "cause=released", kind, pay))

	taken, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	<-lost
	require.EqualValues(t, 1, value(t, registry, "lockgen_losses_total", kind, pay, "reason=taken"))
	require.EqualValues(t, 0, value(t, registry, "lockgen_held", kind, pay))

	lease, err = c.RWMutex(redistest.Key(t, "rw")).RLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.EqualValues(t, 1, value(t, registry, "lockgen_hold_duration_seconds", "cause=released", "kind=read", "name=read"))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMetrics_CountHandOvers(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	hooks := metrics.Hooks(lockrt.Hooks{})
	for _, grant := range []lockrt.Grant{lockrt.GrantServer, lockrt.GrantLocal, lockrt.GrantRemote, lockrt.GrantLocal, lockrt.GrantShared} {
		hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Kind: lockrt.KindFair, Name: "n", Outcome: lockrt.OutcomeAcquired, Grant: grant})
	}
	require.EqualValues(t, 2, value(t, registry, "lockgen_handovers_total", "from=local", "kind=fair", "name=n"))
	require.EqualValues(t, 1, value(t, registry, "lockgen_handovers_total", "from=remote", "kind=fair", "name=n"))
}

func TestMetrics_CountDeadlocks(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	next := 0
	hooks := metrics.Hooks(lockrt.Hooks{Deadlock: func(context.Context, lockrt.DeadlockEvent) { next++ }})
	for _, broken := range []bool{false, true, false} {
		hooks.Deadlock(t.Context(), lockrt.DeadlockEvent{Kind: lockrt.KindFair, Name: "n", Broken: broken})
	}
	require.EqualValues(t, 2, value(t, registry, "lockgen_deadlocks_total", "broken=false", "kind=fair", "name=n"))
	require.EqualValues(t, 1, value(t, registry, "lockgen_deadlocks_total", "broken=true", "kind=fair", "name=n"))
	require.Equal(t, 3, next)
}

func TestMetrics_AMillionKeysAreAFewSeries(t *testing.T) {
	t.Parallel()
	metrics := lockprom.New()
	hooks := metrics.Hooks(lockrt.Hooks{})
	meter.Million(context.Background(), &hooks)
	require.Equal(t, 10*5, testutil.CollectAndCount(metrics, "lockgen_acquire_duration_seconds"))
}

func TestMetrics_NamesMadeOfKeysShareASeries(t *testing.T) {
	t.Parallel()
	metrics := lockprom.New()
	hooks := metrics.Hooks(lockrt.Hooks{})
	for i := range 5 * meter.MostNames {
		key := fmt.Sprint("order:", i)
		meter.Cycle(context.Background(), &hooks, uint64(i), key, key)
	}
	require.Equal(t, meter.MostNames+1, testutil.CollectAndCount(metrics, "lockgen_hold_duration_seconds"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	require.EqualValues(t, 4*meter.MostNames, value(t, registry, "lockgen_hold_duration_seconds", "cause=released", "kind=mutex", "name=other"))
	require.EqualValues(t, 0, value(t, registry, "lockgen_held", "kind=mutex", "name=other"))
}

// A name may be any bytes; Prometheus takes UTF-8.
func TestMetrics_NamesAreUTF8(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	hooks := metrics.Hooks(lockrt.Hooks{})
	for i := range 3 {
		meter.Cycle(t.Context(), &hooks, uint64(i), "order:\xff\xfe", "order:\xff\xfe")
	}
	require.EqualValues(t, 3, value(t, registry, "lockgen_hold_duration_seconds", "cause=released", "kind=mutex", "name=order:\uFFFD"))
}

// The counters that alerts look at begin at 0 with the first event of a name: a counter that begins at 1 has no increase in
// Prometheus. Plain semaphores and latches have no leases.
func TestMetrics_LossesBeginAtZero(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	hooks := metrics.Hooks(lockrt.Hooks{})
	for _, kind := range []lockrt.Kind{lockrt.KindPermit, lockrt.KindSemaphore, lockrt.KindLatch} {
		hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Kind: kind, Name: "n", Outcome: lockrt.OutcomeAcquired})
	}
	for _, reason := range []string{"taken", "elapsed", "max_hold", "unconfirmed", "other"} {
		require.EqualValues(t, 0, value(t, registry, "lockgen_losses_total", "kind=permit", "name=n", "reason="+reason), reason)
	}
	require.Equal(t, 5, testutil.CollectAndCount(metrics, "lockgen_losses_total"))
	require.EqualValues(t, 0, value(t, registry, "lockgen_renewals_total", "kind=permit", "name=n", "result=failed"))
	require.Equal(t, 1, testutil.CollectAndCount(metrics, "lockgen_renewals_total"))
	require.EqualValues(t, 0, value(t, registry, "lockgen_deadlocks_total", "broken=false", "kind=permit", "name=n"))
	require.Equal(t, 2, testutil.CollectAndCount(metrics, "lockgen_deadlocks_total"))
}

// A client that is watched has the response time of its server, and the commands that were sent again. Another client of the same name takes its place,
// and the end of the first one's metrics does not end those of the second one.
func TestMetrics_Watch(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	c := open(t, metrics, lockrt.Hooks{})
	endFirst := metrics.Watch("orders", nil)
	require.EqualValues(t, 0, value(t, registry, "lockgen_sent_again_total", "client=orders"))
	require.EqualValues(t, -1, value(t, registry, "lockgen_response_seconds", "client=orders"), "there was no answer yet")
	end := metrics.Watch("orders", c)
	defer metrics.Watch("stock\xff", c)()
	endFirst()

	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	slow, err := lockrt.Open(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: 15 * time.Second})
	require.NoError(t, err)
	defer slow.Close()
	metrics.Watch("slow", slow)
	before := value(t, registry, "lockgen_sent_again_total", "client=slow")
	lost := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Close)
	for _, client := range []*lockrt.Client{c, slow} {
		lease, err := client.FairMutex(redistest.Key(t, client.ID())).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	<-lost.Done()
	require.Greater(t, value(t, registry, "lockgen_sent_again_total", "client=slow"), before)
	for _, name := range []string{"orders", "slow", "stock\uFFFD"} {
		took := value(t, registry, "lockgen_response_seconds", "client="+name)
		require.Positive(t, took, name)
		require.Less(t, took, 60.0, "seconds")
	}
	require.NoError(t, c.Close())
	require.Positive(t, value(t, registry, "lockgen_response_seconds", "client=orders"), "it stays as it is")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	end()
	end()
	require.EqualValues(t, -1, value(t, registry, "lockgen_sent_again_total", "client=orders"))
}

// One lease that is held for longer than a day shows, whatever others of its name do, until it ends.
func TestMetrics_HeldOverADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics, registry := lockprom.New(), prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics)
		hooks := metrics.Hooks(lockrt.Hooks{})
		ctx := t.Context()
		over := func() float64 { return value(t, registry, "lockgen_held_over_day", "kind=mutex", "name=pay") }
		hold := func() (end func()) {
			hooks.Acquired(ctx, lockrt.AcquireEvent{Kind: lockrt.KindMutex, Name: "pay"})
			from := time.Now()
			return func() {
				hooks.Ended(ctx, lockrt.EndEvent{Kind: lockrt.KindMutex, Name: "pay", At: time.Now(), Held: time.Since(from), Reason: lockrt.EndReleased})
			}
		}
		pass := func(d time.Duration) { // others lock and unlock, across the moments when metrics are collected
			for until := time.Now().Add(d); time.Now().Before(until); {
				end := hold()
				over()
				time.Sleep(5 * time.Minute)
				end()
			}
		}
		pass(time.Hour)
		stuck := hold()
		pass(23*time.Hour + 55*time.Minute)
		require.Zero(t, over())
		pass(25 * time.Minute)
		require.EqualValues(t, 1, over())
		second := hold()
		pass(72 * time.Hour) // the slots are used again
		require.EqualValues(t, 2, over())
		second()
		require.EqualValues(t, 1, over())
		stuck()
		require.Zero(t, over())
		pass(48 * time.Hour)
		require.Zero(t, over())
		require.Zero(t, value(t, registry, "lockgen_held", "kind=mutex", "name=pay"))
	})
}

// Calls of several goroutines and collections at the same time lose no event.
func TestMetrics_AreCollectedWhileLocksChange(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	hooks := metrics.Hooks(lockrt.Hooks{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 500 {
				meter.Cycle(t.Context(), &hooks, uint64(j), fmt.Sprint("name-", (i+j)%7), "k")
			}
		})
	}
	all.Go(func() {
		for range 20 {
			if _, err := registry.Gather(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	sum := 0.0
	for i := range 7 {
		name := fmt.Sprint("name=name-", i)
		sum += value(t, registry, "lockgen_hold_duration_seconds", "cause=released", "kind=mutex", name)
		require.Zero(t, value(t, registry, "lockgen_held", "kind=mutex", name))
		require.Zero(t, value(t, registry, "lockgen_held_over_day", "kind=mutex", name))
	}
	require.EqualValues(t, 4*500, sum)
}

// TestMetrics_TakeNoMemory shows that an acquisition allocates no memory for metrics.
func TestMetrics_TakeNoMemory(t *testing.T) {
	metrics := lockprom.New()
	hooks := metrics.Hooks(lockrt.Hooks{})
	ctx := context.Background()
	cycle := func() { meter.Cycle(ctx, &hooks, 1, "orders.Service.Pay", "order:1") }
	cycle()
	require.Zero(t, testing.AllocsPerRun(1000, cycle))
}

// BenchmarkMetrics: Acquire is the cost of metrics for a call that acquires, Cycle with the end of
// its lease.
func BenchmarkMetrics(b *testing.B) {
	metrics := lockprom.New()
	hooks := metrics.Hooks(lockrt.Hooks{})
	ctx := context.Background()
	e := lockrt.AcquireEvent{Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Key: "order:1", Waited: time.Millisecond,
		Outcome: lockrt.OutcomeAcquired, Grant: lockrt.GrantServer}
	b.Run("Acquire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hooks.AcquireEnd(ctx, e)
			hooks.Acquired(ctx, e)
		}
	})
	b.Run("Cycle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			meter.Cycle(ctx, &hooks, 1, "orders.Service.Pay", "order:1")
		}
	})
}
