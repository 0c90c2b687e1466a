package lockrt_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// TestFault_Unlock_RefusedAfterTheLostReply: Redis runs the release, and the connection ends before the reply comes. Redis refuses the next
// copy for a reason that goes away, and has nothing for the third: the first one did it.
func TestFault_Unlock_RefusedAfterTheLostReply(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		release func(cmd []string) bool
		lock    func(c *lockrt.Client, ctx context.Context) (*lockrt.Lease, error)
	}{
		"mutex": {gives, func(c *lockrt.Client, ctx context.Context) (*lockrt.Lease, error) { return c.Mutex("k").Lock(ctx) }},
		"fair":  {redistest.EvalSHA(scripts.FairRelease.SHA1()), func(c *lockrt.Client, ctx context.Context) (*lockrt.Lease, error) { return c.FairMutex("k").Lock(ctx) }},
		"rw":    {redistest.EvalSHA(scripts.RWWriteRelease.SHA1()), func(c *lockrt.Client, ctx context.Context) (*lockrt.Lease, error) { return c.RWMutex("k").Lock(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			c := clientOf(t, proxy.URL(), lockrt.Options{})
			first, err := tt.lock(c, patient(t)) // else the lost reply says that there is no such script
			require.NoError(t, err)
			require.NoError(t, first.Unlock(patient(t)))
			second, err := tt.lock(c, patient(t))
			require.NoError(t, err)
			var releases atomic.Int32
			proxy.OnRequest(func(cmd []string) {
				if tt.release(cmd) {
					switch releases.Add(1) {
					case 2:
						server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
					case 3:
						server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
					}
				}
			})
			lost := proxy.DropReply(tt.release, 1, redistest.Close)
			require.NoError(t, second.Unlock(patient(t)))
			receive(t, lost.Done(), "the loss")
		})
	}
}
