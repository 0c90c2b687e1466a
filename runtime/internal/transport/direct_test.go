package transport

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// A closable is a connection that can be closed, and nothing else.
type closable struct {
	rueidis.DedicatedClient
	closed atomic.Int32
}

func (c *closable) Close() { c.closed.Add(1) }

// A connection is closed once no caller has used it for long, and not while one has it.
func TestDirect_IsClosedAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		d := &direct{net: &Transport{cfg: Config{Stopped: make(chan struct{})}}, on: true, rest: 10 * time.Second}
		for range 2 { // one is made again
			conn := &closable{}
			d.made.Store(true)
			d.give(&exclusive{conn: conn})
			for range 20 {
				pass(9 * time.Second)
				own := d.seize()
				require.NotNil(t, own)
				own.uses.Add(1)
				d.give(own)
			}
			own := d.seize()
			pass(time.Hour)
			d.give(own)
			pass(9 * time.Second)
			require.Zero(t, conn.closed.Load())
			pass(12 * time.Second)
			require.EqualValues(t, 1, conn.closed.Load())
			require.Nil(t, d.seize())
			require.False(t, d.made.Load())
		}
	})
}
