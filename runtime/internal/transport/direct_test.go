package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
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
		stopped := make(chan struct{})
		d := &direct{link: &link{cfg: Config{Stopped: stopped}}, on: true, rest: 10 * time.Second}
		for range 2 { // one is made again
			conn := &closable{}
			d.made.Store(true)
			d.give(&exclusive{conn: conn})
			for range 20 {
				pass(9 * time.Second)
				own := d.take()
				require.NotNil(t, own)
				d.give(own)
			}
			own := d.take()
			pass(time.Hour)
			d.give(own)
			pass(9999 * time.Millisecond)
			require.Zero(t, conn.closed.Load())
			pass(time.Millisecond)
			require.EqualValues(t, 1, conn.closed.Load())
			require.Nil(t, d.take())
			require.False(t, d.made.Load())
		}
		last := &closable{}
		close(stopped)
		d.give(&exclusive{conn: last})
		require.EqualValues(t, 1, last.closed.Load(), "at once, when the client is closed")
	})
}

// newDirectTest returns a muteTest whose transport has a direct connection, which stays, and a shared one that is pipelined. No answer is late, however
// slow the machine is.
func newDirectTest(t *testing.T) *muteTest {
	t.Helper()
	x := newMuteTest(t)
	x.net.Bound(time.Hour)
	x.net.markShared()
	madeDirect(t, x.net)
	x.net.spoke.Store(int64(monotonic.Now().Add(time.Hour))) // a moment ago
	x.net.pace.took.Store(int64(time.Hour))
	return x
}

// madeDirect returns when there is a direct connection, which stays.
func madeDirect(t *testing.T, net *Transport) {
	t.Helper()
	net.direct.rest = time.Hour
	require.Eventually(t, func() bool {
		net.direct.want()
		return net.Idle()
	}, time.Minute, time.Millisecond)
}

// There may be another connection when one has broken.
func TestDirect_ThatHasBroken(t *testing.T) {
	t.Parallel()
	x := newDirectTest(t)
	defer x.end()
	own := x.net.direct.take()
	x.proxy.Cut()
	require.Error(t, x.net.direct.run(nil, own, x.process.Inspect(x.key)).Error())
	require.False(t, x.net.Idle())
	require.False(t, x.net.direct.made.Load())
}

// A connection that rueidis has pipelined by itself is given up by the first command that finds it so, also by one that no caller is blocked for.
func TestDirect_ThatIsPipelined(t *testing.T) {
	t.Parallel()
	x := newDirectTest(t)
	defer x.end()
	require.NoError(t, x.net.Run(x.process.Inspect(x.key)).Err())
	require.True(t, x.net.Idle())
	pipelines, end := context.WithCancel(t.Context())
	defer end()
	conn := x.net.direct.idle.Load().conn
	require.NoError(t, conn.Do(pipelines, conn.B().Ping().Build()).Error())
	require.NoError(t, x.net.Run(x.process.Inspect(x.key)).Err())
	require.False(t, x.net.Idle())
	require.False(t, x.net.direct.made.Load(), "there may be another")
}

// A caller that comes now and then has no connection made, which it would not use.
func TestDirect_IsMadeForTheSecondCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &dedicating{}
		u := &fake{}
		stopped := make(chan struct{})
		l := &link{rc: client, cfg: Config{Stopped: stopped, User: u, OpTimeout: time.Second}}
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
		require.NotNil(t, d.take())
		<-time.After(time.Hour) // until its timer has come

		d.made.Store(false)
		close(stopped)
		for range 2 {
			d.want()
		}
		u.wg.Wait()
		require.EqualValues(t, 1, client.made.Load(), "none for a client that is stopped")
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
