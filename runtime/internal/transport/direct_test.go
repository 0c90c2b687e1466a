package transport

import (
	"context"
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
		d := &direct{link: &link{cfg: Config{Stopped: make(chan struct{})}}, on: true, rest: 10 * time.Second}
		for range 2 { // one is made again
			conn := &closable{}
			d.made.Store(true)
			d.give(&exclusive{conn: conn})
			for range 20 {
				pass(9 * time.Second)
				own := d.seize()
				require.NotNil(t, own)
				d.give(own)
			}
			own := d.seize()
			pass(time.Hour)
			d.give(own)
			pass(9999 * time.Millisecond)
			require.Zero(t, conn.closed.Load())
			pass(time.Millisecond)
			require.EqualValues(t, 1, conn.closed.Load())
			require.Nil(t, d.seize())
			require.False(t, d.made.Load())
		}
	})
}

// madeDirect returns when there is a connection for a lone caller, which stays.
func madeDirect(t *testing.T, net *Transport) {
	t.Helper()
	net.direct.rest = time.Hour
	require.Eventually(t, func() bool {
		net.direct.want()
		return net.Idle()
	}, time.Minute, time.Millisecond)
}

// A caller that comes now and then has no connection made, which it would not use.
func TestDirect_IsMadeForTheSecondCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &dedicating{}
		u := &fake{}
		l := &link{rc: client, cfg: Config{Stopped: make(chan struct{}), User: u, OpTimeout: time.Second}}
		d := &direct{link: l, on: true, rest: 3 * time.Second}
		for range 5 {
			<-time.After(3 * time.Second)
			d.want()
			u.wg.Wait()
			require.Zero(t, client.made.Load())
		}
		<-time.After(2900 * time.Millisecond)
		d.want()
		u.wg.Wait()
		require.EqualValues(t, 1, client.made.Load())
		d.want()
		u.wg.Wait()
		require.EqualValues(t, 1, client.made.Load(), "there is one")
		require.NotNil(t, d.seize())
		<-time.After(time.Hour) // until its timer has come
	})
}

// A dedicating client makes connections that answer, and nothing else.
type dedicating struct {
	rueidis.Client

	made atomic.Int32
}

func (c *dedicating) Dedicate() (rueidis.DedicatedClient, func()) {
	c.made.Add(1)
	return &answering{}, func() {}
}

// An answering connection answers each request with nothing.
type answering struct{ closable }

func (*answering) B() rueidis.Builder { return rueidis.Builder{} }

func (*answering) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.RedisResult{}
}
