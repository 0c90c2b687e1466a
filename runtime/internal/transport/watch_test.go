package transport

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// A busied user is busy or not, each time that it is asked, and in the end it is not.
type busied struct {
	fake

	is []bool
}

func (u *busied) Busy() (is bool) {
	if len(u.is) > 0 {
		is, u.is = u.is[0], u.is[1:]
	}
	return is
}

// The watcher goes on if the client begins to hold something while it ends, and can be started again when it has ended.
func TestWatch_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &busied{}
		looks, rests := 0, 0
		w := topologyWatcher{
			link: &link{cfg: Config{User: u, Stopped: make(chan struct{})}},
			look: func() { looks++ },
			rest: func() { rests++ },
		}
		for range 2 {
			looks, rests = 0, 0
			u.is = []bool{
				false, true, // it holds nothing, and then something again
				true, false, false,
			}
			begin := time.Now()
			w.start()
			w.start()
			u.wg.Wait()
			require.Equal(t, 3, looks)
			require.Equal(t, 2, rests)
			require.Equal(t, 3*lookEvery, time.Since(begin))
			require.Empty(t, u.is)
		}
	})
}

// When there is another master, all leases are confirmed, the subscriptions go there, and a goroutine
// that waits for another master hears of it, once.
func TestWatch_AnotherMaster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials, ended atomic.Int32
		h := hub.New(hub.Config{
			Dial: func(string, hub.Sink) (hub.Conn, <-chan error, error) {
				dials.Add(1)
				return nowhere{}, nil, nil
			},
			Backoff: []time.Duration{time.Hour},
		})
		defer h.Close()
		h.Listen("channel", func(hub.Event) {})
		synctest.Wait()
		u := &fake{rechecks: make(chan func(string) bool, 10)}
		client := &named{name: "one"}
		w := topologyWatcher{link: &link{rc: client, cfg: Config{User: u, Logger: slog.New(slog.DiscardHandler)}}, hub: h}
		end := func() { ended.Add(1) }

		w.lookForMaster() // of a client that was made when there was none
		require.Empty(t, u.rechecks)
		for n := range int32(2) {
			stop := w.onFailover(func() { t.Error("it is not awaited any more") })
			require.True(t, stop())
			w.onFailover(end)
			w.lookForMaster()
			synctest.Wait()
			require.Equal(t, n, ended.Load())
			require.Equal(t, n+1, dials.Load())
			client.name += " or another"
			w.lookForMaster()
			synctest.Wait()
			require.Len(t, u.rechecks, 1)
			require.Nil(t, <-u.rechecks)
			require.Equal(t, n+1, ended.Load())
			require.Equal(t, n+2, dials.Load())
		}
	})
}
