//go:build !race

// The race detector of go1.26 crashes in its own runtime when goroutines of a synctest bubble wait
// for as many timers at once as here. make test runs this package without it as well.

package watchdog

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Leases of all lengths come and go while the server answers, fails, is slow or refuses. Each
// learns of its loss exactly when its trust ends, once, and not after it was stopped; and each is
// renewed in time.
func TestWatchdog_AnythingGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(60) {
			func() {
				r := rand.New(rand.NewPCG(seed, 0))
				random := func(limit time.Duration) time.Duration { return time.Duration(r.Int64N(int64(limit))) }
				var mu sync.Mutex // guards what follows, and r
				asked := make(map[*Lease]time.Time)
				taken := make(map[*Lease]bool)
				ends := make(map[*Lease]time.Time)

				w := New(said(func(leases []*Lease, _ []time.Duration) ([]bool, error) {
					mu.Lock()
					answers := make([]bool, len(leases))
					for i, l := range leases {
						asked[l] = time.Now()
						answers[i] = !taken[l]
					}
					delay, fails := time.Duration(0), r.IntN(3) == 0
					if r.IntN(2) == 0 {
						delay = random(leases[0].TTL)
					}
					mu.Unlock()
					advance(delay)
					if fails {
						return nil, errDown
					}
					return answers, nil
				}), atMost(1+r.IntN(5)), nil)
				defer w.Close()

				var all []*Lease
				stopped := make(map[*Lease]bool)
				for range 150 {
					mu.Lock()
					pause, dice := random(3*time.Second), r.IntN(10)
					l := &Lease{TTL: 100*time.Millisecond + random(90*time.Second), Renew: r.IntN(4) > 0}
					var other *Lease
					if len(all) > 0 {
						other = all[r.IntN(len(all))]
					}
					late := random(l.TTL)
					asked[l] = time.Now()
					mu.Unlock()
					l.Holding = loser(func(cause error) {
						mu.Lock()
						defer mu.Unlock()
						_, twice := ends[l]
						require.False(t, twice, "told twice")
						require.False(t, stopped[l], "told after it was stopped")
						if !errors.Is(cause, ErrRefused) {
							require.WithinDuration(t, time.Now(), l.Until(), 0, "told too early or too late")
						}
						ends[l] = time.Now()
					})
					switch {
					case dice < 5 || other == nil:
						if l.TTL-Margin(l.TTL) > late {
							sent := time.Now()
							advance(late)
							w.Start(l, sent, l.TTL)
						} else {
							w.Start(l, time.Now(), l.TTL)
						}
						all = append(all, l)
					case dice < 7:
						mu.Lock()
						taken[other] = true
						mu.Unlock()
					case dice < 9:
						guarded := w.Stop(other)
						mu.Lock()
						_, over := ends[other]
						require.Equal(t, !over && !stopped[other], guarded)
						stopped[other] = stopped[other] || guarded
						mu.Unlock()
					default:
						_ = w.Check(other)
					}
					advance(pause)
					synctest.Wait()
					mu.Lock()
					for _, l := range all {
						if _, over := ends[l]; over || stopped[l] {
							continue
						}
						require.True(t, time.Now().Before(l.Until()), "not told")
						if l.Renew {
							require.LessOrEqual(t, time.Since(asked[l]), l.TTL, "not asked for")
						}
					}
					mu.Unlock()
				}
			}()
		}
	})
}
