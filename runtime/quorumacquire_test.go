package lockrt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A round that a failure decides before the third of five servers has refused is no tie: nobody else asks at the same time, so
// the pauses grow. They do not where something was granted.
func TestQuorumAcquire_PausesGrowUnlessOthersAskToo(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // after the subtests
	var mutexes []*Mutex
	for i := range 5 {
		mutexes = append(mutexes, c.Mutex(redistest.Key(t, fmt.Sprint(i))))
	}
	const least = 125 * time.Millisecond // half of the longest pause
	for name, x := range map[string]struct {
		granted, refused, failures int
		grows                      bool
	}{
		"three refuse":                          {refused: 3, grows: true},
		"two refuse and one fails":              {refused: 2, failures: 1, grows: true},
		"one refuses and two fail":              {refused: 1, failures: 2, grows: true},
		"one grants, three refuse":              {granted: 1, refused: 3, grows: true},
		"two grant, two refuse and one is away": {granted: 2, refused: 2, failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newRedLock(mutexes)
			e := &quorumAcquire{m: m, ctx: t.Context(), whole: newLease(c, kindRedLock, m.key, t.Context())}
			var said event
			for range 10 {
				r := &round{refused: x.refused, failures: x.failures, err: errBroken, cancel: func() {}}
				for _, part := range mutexes[:x.granted] {
					l := newLease(c, kindMutex, part.key, t.Context())
					l.grant = forgotten{}
					r.parts = append(r.parts, l)
				}
				said = e.abandonRound(r, nil, false)
				require.Equal(t, refusedFor, said.kind)
			}
			require.Equal(t, x.grows, said.ttl >= least, said.ttl)
		})
	}
}

// A forgotten holding does not care who unlocks it.
type forgotten struct{}

func (forgotten) reenter(*Lease, *Lease) bool { return false }

func (forgotten) unlock(*Lease) error { return nil }
