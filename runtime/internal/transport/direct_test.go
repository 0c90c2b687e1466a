package transport

import (
	"context"
	"io"
	"sync"
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
		d := &direct{of: &directs{link: &link{cfg: Config{Stopped: stopped}}, rest: 10 * time.Second}}
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
	require.False(t, x.net.direct.all[0].made.Load())
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
	conn := x.net.direct.all[0].idle.Load().conn
	require.NoError(t, conn.Do(pipelines, conn.B().Ping().Build()).Error())
	require.NoError(t, x.net.Run(x.process.Inspect(x.key)).Err())
	require.False(t, x.net.Idle())
	require.False(t, x.net.direct.all[0].made.Load(), "there may be another")
}

// A caller that comes now and then has no connection made, which it would not use.
func TestDirect_IsMadeForTheSecondCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &dedicating{}
		u := &fake{}
		stopped := make(chan struct{})
		l := &link{rc: client, cfg: Config{Stopped: stopped, User: u, OpTimeout: time.Second}}
		d := &direct{of: &directs{link: l, rest: 3 * time.Second}}
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

	made   atomic.Int32
	broken bool // its connections are
}

func (c *dedicating) Dedicate() (rueidis.DedicatedClient, func()) {
	c.made.Add(1)
	return &answering{broken: c.broken}, func() {}
}

// An answering connection answers each request with nothing.
type answering struct {
	closable

	broken bool
}

func (*answering) B() rueidis.Builder { return rueidis.Builder{} }

func (c *answering) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	if c.broken {
		return rueidis.NewErrorResult(io.EOF)
	}
	return rueidis.RedisResult{}
}

// Several direct connections are used if commands over the shared one wait for a processor: they take long, and those over a direct one do not. That ends
// some time after the last one that has waited.
func TestDirects_Spread(t *testing.T) {
	t.Parallel()
	const usual = 5 * time.Millisecond
	for name, test := range map[string]struct {
		own, shared time.Duration
		spread      bool
	}{
		"busy processors":            {own: 20 * time.Microsecond, shared: 10 * time.Millisecond, spread: true},
		"some answers wait as well":  {own: time.Millisecond, shared: 10 * time.Millisecond, spread: true},
		"as fast as usual":           {own: 20 * time.Microsecond, shared: usual},
		"a server that is far":       {own: 10 * time.Millisecond, shared: 10 * time.Millisecond},
		"nothing to compare it with": {shared: 10 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &directs{}
			d.init(&link{})
			if test.own > 0 {
				d.own.noteFirst(test.own)
			}
			answered := func(n int, took time.Duration) {
				for range n {
					began := monotonic.Now()
					<-time.After(took)
					d.beside(began, monotonic.Now(), usual)
				}
			}
			answered(1, test.shared)
			require.False(t, d.spread(), "%s: one is nothing", name)
			answered(10, test.shared)
			require.Equal(t, test.spread, d.spread(), name)
			if !test.spread {
				return
			}
			<-time.After(spreadFor - time.Nanosecond)
			require.True(t, d.spread(), name)
			answered(1, test.shared)
			<-time.After(spreadFor - time.Nanosecond)
			require.True(t, d.spread(), name)
			<-time.After(time.Nanosecond)
			require.False(t, d.spread(), name)
			require.Zero(t, d.until.Load(), name)
			answered(100, time.Microsecond) // the processors are idle again
			d.until.Store(0)
			answered(1, usual)
			require.False(t, d.spread(), name)
		})
	}
}

// A server that stands still once, or a connection that takes long to make, has commands take long that are under way together. That is no sign of busy
// processors.
func TestDirects_SpreadNotAfterOneStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &directs{}
		d.init(&link{})
		const usual = crossing + 8*soonEach
		for _, long := range []time.Duration{9 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, time.Second} {
			d.own.noteFirst(100 * time.Microsecond)
			began := monotonic.Now()
			<-time.After(long)
			d.own.noteFirst(long)
			for range 7 {
				d.beside(began, monotonic.Now(), usual)
			}
			for range 30 {
				d.own.noteFirst(100 * time.Microsecond)
				began := monotonic.Now()
				<-time.After(100 * time.Microsecond)
				d.beside(began, monotonic.Now(), usual)
				require.False(t, d.spread(), long)
			}
		}
	})
}

// After a connection could not be made, none is made for a while.
func TestDirects_ThatCannotBeMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, u := &dedicating{broken: true}, &fake{}
		d := &directs{on: true, rest: 4 * time.Second}
		d.init(&link{rc: client, cfg: Config{Stopped: make(chan struct{}), User: u, OpTimeout: time.Second}})
		d.until.Store(int64(monotonic.Now().Add(time.Hour)))
		for n := range int32(3) {
			for range 3 * mostDirects {
				d.want()
				u.wg.Wait()
			}
			require.Equal(t, n+1, client.made.Load())
			<-time.After(d.rest)
		}
	})
}

// A direct connection is made if none is idle, and no more than are used. Those that are used no more are closed at rest.
func TestDirects_AreMadeWhenNoneIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, u := &dedicating{}, &fake{}
		d := &directs{on: true, rest: 4 * time.Second}
		d.init(&link{rc: client, cfg: Config{Stopped: make(chan struct{}), User: u, OpTimeout: time.Second}})
		several := func(on bool) {
			d.until.Store(0)
			if on {
				d.until.Store(int64(monotonic.Now().Add(time.Hour)))
			}
		}
		wants := func() (n int32) {
			for range 3 * mostDirects {
				d.want()
				u.wg.Wait()
			}
			return client.made.Load()
		}
		require.EqualValues(t, 1, wants())
		several(true)
		require.EqualValues(t, mostDirects, wants())

		taken := map[*exclusive]bool{}
		for range mostDirects {
			require.True(t, d.idle())
			own := d.take()
			require.NotNil(t, own)
			require.False(t, taken[own], "one goroutine at a time has it")
			taken[own] = true
		}
		require.False(t, d.idle())
		require.Nil(t, d.take())
		for own := range taken {
			own.of.give(own)
		}
		require.EqualValues(t, mostDirects, wants())

		several(false)
		<-time.After(3 * time.Second)
		own := d.take()
		require.False(t, d.idle(), "the others are not used")
		require.Nil(t, d.take())
		own.of.give(own)
		<-time.After(2 * time.Second)
		synctest.Wait()
		for i := range d.all {
			require.Equal(t, i == 0, d.all[i].made.Load(), i)
		}
		d.drop()
		require.False(t, d.all[0].made.Load())
		<-time.After(time.Hour) // until its timer has come
	})
}

// A parting connection is closed when all have begun to close.
type parting struct {
	closable

	all *sync.WaitGroup
}

func (c *parting) Close() {
	c.closable.Close()
	c.all.Done()
	c.all.Wait()
}

// Connections of which each takes long to close are closed at the same time.
func TestDirects_DropAllAtOnce(t *testing.T) {
	t.Parallel()
	d := &directs{rest: time.Hour}
	d.init(&link{cfg: Config{Stopped: make(chan struct{})}})
	var all sync.WaitGroup
	all.Add(mostDirects)
	for i := range d.all {
		one := &d.all[i]
		one.made.Store(true)
		one.give(&exclusive{of: one, conn: &parting{all: &all}})
	}
	d.drop()
	for i := range d.all {
		require.False(t, d.all[i].made.Load())
	}
}

// Each caller of a process whose processors have other work has a script and a connection of its own, also if they are a crowd, while there are
// connections. A caller that finds none leaves its request to a sender.
func TestBatcher_CallersOfABusyProcess(t *testing.T) {
	t.Parallel()
	x := newDirectTest(t)
	defer x.end()
	net := x.net
	b := net.Outbox().Batcher(x.process.Takes(), true)
	answers := make(chan error, 10)
	submit := func(n uint64) { b.Submit(x.taking(n, answers), true) }
	net.crowd.joins(mostSpread / 2)
	net.direct.until.Store(int64(monotonic.Now().Add(time.Hour)))
	for i := range net.direct.all[2:] { // so that two are made, and no more
		net.direct.all[2+i].made.Store(true)
	}
	first := net.direct.take()
	require.Eventually(t, func() bool {
		net.direct.want()
		return net.direct.all[1].made.Load() && net.Idle()
	}, time.Minute, time.Millisecond)
	require.True(t, b.box.one.spreads())
	confirming := newSenders(&Outbox{net: net, confirms: true}, 0)
	require.False(t, confirming.spreads(), "they have other connections")
	before := net.direct.all[1].idle.Load().used
	for n := range uint64(5) {
		submit(n)
		require.NoError(t, <-answers)
	}
	require.Greater(t, net.direct.all[1].idle.Load().used, before)
	require.Empty(t, answers)
	second := net.direct.take()
	require.False(t, b.box.one.spreads(), "there is none")
	second.of.give(second)
	first.of.give(first)
}
