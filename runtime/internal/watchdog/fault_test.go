package watchdog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A retry may fall right before the end of the trust, when the lease cannot be due later any more.
func TestWatchdog_TellsInTimeWhateverTheLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for ttl := 100 * time.Millisecond; ttl < 20*time.Minute; ttl += ttl / 16 {
			func() {
				s := newServer(upBefore(0))
				w := New(said(s.renew), atMost(4), nil)
				defer w.Close()
				start := time.Now()
				lost := make(chan time.Duration, 1)
				w.Start(&Lease{Holding: loser(func(error) { lost <- time.Since(start) }), TTL: ttl, Renew: true}, start, ttl)
				require.Equal(t, ttl-Margin(ttl), <-lost, ttl)
				require.LessOrEqual(t, len(s.times()), 20+int(ttl/time.Second), ttl)
			}()
		}
	})
}

func TestWatchdog_WakesLateRightBeforeTheEndOfTheTrust(t *testing.T) {
	t.Parallel()
	const ttl = 1200 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		for late := time.Duration(0); late < ttl; late += 7 * time.Millisecond {
			func() {
				s := newServer(upBefore(0))
				w := New(said(s.renew), atMost(4), nil)
				defer w.Close()
				sent := time.Now()
				advance(late) // the answer is read so much later
				lost := make(chan time.Duration, 1)
				w.Start(&Lease{Holding: loser(func(error) { lost <- time.Since(sent) }), TTL: ttl, Renew: true}, sent, ttl)
				require.Equal(t, max(late, ttl-Margin(ttl)), <-lost, late)
			}()
		}
	})
}
