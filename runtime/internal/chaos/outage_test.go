//go:build linux

package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// machinesPart is the part of a lease that the machine may take of the trust in it.
const machinesPart = 60

// trustLeft is for how long a lease is trusted at least when the server stops answering: its next renewal was about to be sent.
func trustLeft(lease time.Duration) time.Duration {
	return lease - watchdog.Margin(lease) - watchdog.Interval(lease)
}

// outlasts is how long an outage may last that a lease outlives.
func outlasts(lease time.Duration) time.Duration { return trustLeft(lease) - lease/machinesPart }

// outlived is how long the outage may last that the lease of an attempt outlives. A lease that another process handed over a moment
// before, or while the fault began, has not been renewed yet, and is shorter.
func (h *history) outlived(a *attempt, lease time.Duration) time.Duration {
	first := min(protocol.HandOverLease, lease)
	if slices.ContainsFunc(h.marks(broken), func(e event) bool {
		return a.granted > e.At-int64(watchdog.Interval(first)) && a.granted < e.At+int64(first)
	}) {
		return outlasts(first)
	}
	return outlasts(lease)
}

// muteFor is for how long a connection may be mute at most until rueidis finds that, with the options of lockrt.Open: rueidis sends a
// PING over a silent connection after ConnWriteTimeout, and waits as long for the answer.
func muteFor(lease time.Duration) time.Duration { return 2 * min(lease/3, 2*lockrt.DefaultOpTimeout/3) }

// fraction writes a part of a lease.
func fraction(part, lease time.Duration) string {
	for whole := 1; ; whole++ {
		if n := float64(part) * float64(whole) / float64(lease); math.Abs(n-math.Round(n)) < 1e-6 {
			return fmt.Sprintf("%.0f/%d", n, whole)
		}
	}
}

// A guarded lease is renewed as often as the watchdog likes.
type guarded struct{}

func (guarded) Kind() string          { return "mutex" }
func (guarded) Key() string           { return longKey }
func (guarded) Owner() string         { return "1" }
func (guarded) Began() monotonic.Time { return monotonic.Now() }
func (guarded) Lost(error)            {}

// TestOutlasts has the watchdog renew leases for ten of their lengths, and an outage begin before each renewal: what is trusted then is
// what the rule says, which the document says in words.
func TestOutlasts(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{shortLease, failoverLease, clusterLease, defaultLease} {
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &watchdog.Lease{Holding: guarded{}, TTL: lease, Renew: true}
				least, renewals := lease, 0
				w := watchdog.New(func(leases []*watchdog.Lease, _ []time.Duration) []error {
					least, renewals = min(least, time.Until(l.Until())), renewals+1
					return make([]error, len(leases))
				}, func() int { return 1 }, nil)
				defer w.Close()
				w.Start(l, time.Now(), lease)
				time.Sleep(10*lease + lease/6)
				synctest.Wait()
				require.Equal(t, 30, renewals)
				require.InDelta(t, trustLeft(lease), least, float64(time.Microsecond))
				require.Less(t, outlasts(lease), least)
			})
			text := strings.Join(strings.Fields(preface(lease, "")), " ")
			require.Contains(t, text, "longer than "+fraction(outlasts(lease), lease)+" of the lease")
			require.Contains(t, text, "as short as "+fraction(trustLeft(lease), lease)+", and")
		})
	}
}
