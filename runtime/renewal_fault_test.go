package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// TestFault_OneMuteRenewalAfterAHandOver has a process be handed a lock, with the default options. The reply to its first
// renewal is lost, on a connection that stays open and says nothing any more. It is trusted for less than two seconds
// then, in which it is renewed over another connection.
func TestFault_OneMuteRenewalAfterAHandOver(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(c *lockrt.Client) lockrt.Locker{
		"mutex": func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k") },
		"fair":  func(c *lockrt.Client) lockrt.Locker { return c.FairMutex("k") },
	}
	for kind, lock := range kinds {
		for name, tracking := range map[string]lockrt.Tracking{"": lockrt.TrackingAuto, ", nothing tracked": lockrt.TrackingOff} {
			t.Run(kind+name, func(t *testing.T) {
				t.Parallel()
				atBest(t, "the machine had time for two renewals within two seconds", func() bool {
					server := redistest.Server(t)
					proxy := redistest.Proxy(t, server.Addr())
					renewed := make(chan lockrt.RenewEvent, 1000)
					next := clientOf(t, proxy.URL(), lockrt.Options{Tracking: tracking, Hooks: lockrt.Hooks{
						Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e },
					}})
					other, err := next.Mutex("other").Lock(patient(t), unrenewed)
					require.NoError(t, err)
					if tracking == lockrt.TrackingAuto {
						watches(t, server, 1) // the connection that changes are told on is there
					}
					held, err := lock(clientOf(t, server.URL(), lockrt.Options{})).Lock(patient(t))
					require.NoError(t, err)
					got := lockLater(patient(t), lock(next))
					until(t, "it stands in line", func() bool { return number(t, server, "EXISTS", "lockgen_waiting:{k}", "redisson_lock_queue:{k}") == 1 })
					drop := proxy.DropReply(redistest.EvalSHA(scripts.Renew.SHA1()), 1, redistest.Mute)
					require.NoError(t, held.Unlock(t.Context()))
					lease := gotten(t, got, "the lock")
					select {
					case <-drop.Done():
					case <-lease.Context().Done(): // before the request
						return false
					}
					for confirmed := false; !confirmed; {
						select {
						case e := <-renewed:
							confirmed = e.Key == "k" && e.Err == nil
						case <-lease.Context().Done():
							return false
						}
					}
					require.NoError(t, lease.Err())
					require.Greater(t, time.Until(lease.Until()), 5*time.Second, "it has its full length")
					unharmed(t, lease, other)
					return true
				})
			})
		}
	}
}
