package counting

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A host is a client that sends nothing.
type host struct{ held int }

func (*host) Number() uint64                   { return 1 }
func (*host) Granting() bool                   { return true }
func (*host) Spawn(f func())                   { f() }
func (*host) Pause(time.Duration) bool         { return true }
func (*host) Backoff(int) time.Duration        { return 0 }
func (*host) Closing() <-chan struct{}         { return nil }
func (h *host) Held(change int)                { h.held += change }
func (*host) Listen(string)                    {}
func (*host) Later(_ string, f func(k *Count)) {}

// A holder remembers how its permit ended.
type holder struct {
	permit *Permit
	cause  error
}

func (h *holder) Begin(began monotonic.Time) watchdog.Holding { return holding{h.permit, began} }
func (h *holder) End(cause error)                             { h.cause = cause }
func (h *holder) Ended() error                                { return h.cause }

// A holding is a permit as the watchdog sees it.
type holding struct {
	*Permit

	began monotonic.Time
}

func (h holding) Began() monotonic.Time { return h.began }

// granted returns a count of permits, and one that this process holds with these ids.
func granted(t *testing.T, ids string) (*host, *Count, *holder) {
	t.Helper()
	h, dog := &host{}, watchdog.New(nil, func() int { return 1 }, nil)
	t.Cleanup(dog.Close)
	ct := new(Counter[wanting])
	ct.Init(&Client{Host: h, Watchdog: dog}, Permits, "k", Entry{Stay: func() {}, Quit: func() {}}, new(sync.Mutex))
	of := new(holder)
	of.permit = NewPermit(of)
	require.False(t, of.permit.Granted())
	of.permit.begins(&ct.Count, &engine.Demand{IDs: ids}, monotonic.Now(), engine.Terms{TTL: time.Hour})
	dog.Start(&of.permit.guard, time.Now(), time.Hour)
	require.True(t, of.permit.Granted())
	return h, &ct.Count, of
}

type wanting struct{ demand *Demand }

func (x wanting) Demand() *engine.Demand { return &x.demand.Demand }
func (x wanting) Permit() *Permit        { return x.demand.Permit }

func (x wanting) MaxHold() time.Duration { return 0 }

// TestPermit_Part shows what is left of permits that were acquired together when some of them are released, and the end of the last.
func TestPermit_Part(t *testing.T) {
	t.Parallel()
	ids := NewIDs("", 2)
	h, k, of := granted(t, ids)
	p := of.permit
	require.False(t, p.Fewer(ids))
	p.releasing.Add(1) // by a call that has not got its answer
	require.True(t, p.Fewer(ids))
	p.releasing.Add(-1)

	require.Equal(t, []*Permit{p}, k.holding(ids[:protocol.PermitLength]))
	require.Empty(t, k.holding(NewIDs("", 1)))
	k.took([]*Permit{p}, ids[:protocol.PermitLength], watchdog.ErrRefused)
	require.True(t, p.Fewer(ids), "a renewal of both asked for too many")
	require.Equal(t, ids[protocol.PermitLength:], p.Owner())
	require.Equal(t, 1, p.Size())
	require.Equal(t, 1, k.Ours())
	require.Len(t, k.Guards(), 1)
	require.NoError(t, of.cause)

	k.took([]*Permit{p}, ids[protocol.PermitLength:], watchdog.ErrRefused)
	require.ErrorIs(t, of.cause, watchdog.ErrRefused)
	require.ErrorIs(t, of.cause, failure.ErrLost)
	require.Zero(t, p.Size())
	require.Zero(t, k.Ours())
	require.Zero(t, h.held)

	require.ErrorIs(t, p.Release(), failure.ErrLost)
	require.Equal(t, failure.ErrReleased, p.Release())
}

// A grant whose answer comes when the permits are trusted no more is none. The waiter asks for others: those of the grant are released.
func TestPermits_LateGrant(t *testing.T) {
	t.Parallel()
	ct := new(Counter[wanting])
	ct.Init(&Client{Host: &host{}}, Permits, "k", Entry{Stay: func() {}, Quit: func() {}}, new(sync.Mutex))
	w := engine.NewWaiter[wanting]()
	ids := NewIDs("", 2)
	w.For.demand = &Demand{Demand: engine.Demand{N: 2, IDs: ids}, Permit: NewPermit(new(holder))}
	w.Terms = engine.Terms{TTL: time.Hour}
	for name, grant := range map[string]struct{ sent, ends time.Time }{
		"a late answer":                  {time.Now().Add(-time.Hour + time.Second), time.Time{}},
		"the end of the whole semaphore": {time.Now(), time.Now()},
	} {
		require.False(t, ct.of.Grant(w, grant.sent, grant.ends), name)
		require.False(t, w.For.Permit().Granted(), name)
		require.Len(t, w.For.Demand().IDs, len(ids), name)
		require.Equal(t, ids, without(ids, w.For.Demand().IDs), "%s: the ids are others", name)
		ids = w.For.Demand().IDs
	}
}

func TestCount_Close(t *testing.T) {
	t.Parallel()
	_, k, of := granted(t, NewIDs("", 1))
	k.Close()
	require.Equal(t, failure.ErrClosed, of.cause)
	require.Empty(t, (*Count)(nil).holding("any"), "a count that the client does not have")
}

func TestIDs(t *testing.T) {
	t.Parallel()
	const uuid = "00010203-0405-8607-8809-0a0b0c0d0e0f"
	raw := NewIDs(uuid, 2)
	ids := protocol.PermitIDs(raw)
	require.Len(t, ids, 2)
	for _, id := range ids {
		require.True(t, strings.HasPrefix(id, "000102030405"), "it begins with digits of its client")
	}
	again, err := RawIDs(ids[1], ids[0], ids[1])
	require.NoError(t, err)
	require.Len(t, again, len(raw))
	require.Empty(t, without(again, raw))
	require.Equal(t, raw, without(raw, ""))
	require.Empty(t, protocol.PermitIDs(""))
	for _, id := range []string{"", "00", hex.EncodeToString(make([]byte, protocol.PermitLength+1)), "no digits"} {
		_, err := RawIDs(id)
		require.ErrorIs(t, err, failure.ErrBadOption, id)
	}
}

// A later is a host that runs nothing yet.
type later struct {
	host
	tasks []func()
}

func (l *later) Spawn(f func()) { l.tasks = append(l.tasks, f) }

// The handler of a log is not called by the goroutine that gives up a request, which has the lock of the count: it may use the same semaphore.
func TestCount_LogsWithoutItsLock(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	l := &later{}
	k := &Count{Kind: Semaphore, Name: "k", c: &Client{Host: l, Logger: slog.New(slog.NewTextHandler(&text, nil))}, entry: Entry{Stay: func() {}, Quit: func() {}}}
	for batch, want := range map[bool]string{true: "could not be withdrawn", false: "may not have been made"} {
		k.Abandoned(batch, errors.New("reset"))
		require.NotContains(t, text.String(), want)
		l.tasks[len(l.tasks)-1]()
		require.Contains(t, text.String(), want)
	}
}
