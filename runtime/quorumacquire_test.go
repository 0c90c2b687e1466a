package lockrt

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A round that a failure decides before the third of five servers has refused is no tie: nobody else asks at the same time, so
// the pauses grow. They do not where as much was granted as was refused, unless that goes on.
func TestQuorumAcquire_PausesGrowUnlessOthersAskToo(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // after the subtests
	var mutexes []*Mutex
	for i := range 5 {
		mutexes = append(mutexes, c.Mutex(redistest.Key(t, fmt.Sprint(i))))
	}
	const longest = 125 * time.Millisecond // half of the longest pause
	for name, x := range map[string]struct {
		granted, refused, failures int
		rounds                     int // 10 if 0
		least                      time.Duration
	}{
		"three refuse":                          {refused: 3, least: longest},
		"two refuse and one fails":              {refused: 2, failures: 1, least: longest},
		"one refuses and two fail":              {refused: 1, failures: 2, least: longest},
		"one grants, three refuse":              {granted: 1, refused: 3, least: longest},
		"one grants, two refuse, one fails":     {granted: 1, refused: 2, failures: 1, least: longest},
		"two grant, two refuse and one is away": {granted: 2, refused: 2, failures: 1},
		"that goes on":                          {granted: 2, refused: 2, failures: 1, rounds: 5 * tiesOfAPace, least: 16 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newRedLock(mutexes)
			e := &quorumAcquire{m: m, ctx: t.Context(), whole: newLease(c, kindRedLock, m.key, t.Context())}
			var said engine.Event
			for range cmp.Or(x.rounds, 10) {
				r := &round{refused: x.refused, failures: x.failures, err: errBroken, cancel: func() {}}
				for _, part := range mutexes[:x.granted] {
					l := newLease(c, kindMutex, part.key, t.Context())
					l.grant = forgotten{}
					r.parts = append(r.parts, l)
				}
				said = e.abandonRound(r, nil, false)
				require.Equal(t, engine.Refused, said.Kind)
			}
			if x.least > 0 {
				require.GreaterOrEqual(t, said.TTL, x.least)
			} else {
				require.Less(t, said.TTL, 16*time.Millisecond)
			}
		})
	}
}

// A round of a call that does not hear of releases yet waits for slow servers no longer than for others: nothing would end that
// wait when the servers that refused are free. A later round sometimes waits for as long as the slow ones take.
func TestQuorumAcquire_WaitsForSlowServersWhileItHearsOfReleases(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	m := newRedLock([]*Mutex{c.Mutex(redistest.Key(t, "0")), c.Mutex(redistest.Key(t, "1")), c.Mutex(redistest.Key(t, "2"))})
	c.quorums.pace.Store(int64(200 * time.Millisecond))
	cfg := lockConfig{wait: UntilDone}
	cfg.TTL = time.Minute
	e := &quorumAcquire{m: m, ctx: t.Context(), cfg: cfg}
	r := &round{asked: m.parts[2:]}
	longest := func() (most time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for range 1000 {
			most = max(most, e.hurry(r, time.Millisecond))
		}
		return most
	}
	require.Equal(t, 13*time.Millisecond, longest())
	e.mu.Lock()
	e.listen()
	e.mu.Unlock()
	t.Cleanup(func() { e.leave(nil) })
	require.Equal(t, 610*time.Millisecond, longest())
}

// A forgotten holding does not care who unlocks it.
type forgotten struct{}

func (forgotten) reenter(*Lease, *Lease) bool { return false }

func (forgotten) unlock(*Lease) error { return nil }
