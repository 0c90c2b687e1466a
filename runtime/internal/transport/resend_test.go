package transport

import (
	"io"
	"log/slog"
	stdnet "net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport/transporttest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRunRoundInTime_TheFirstMayStillCome shows that a round that took nothing, and was sent again meanwhile, is answered by what
// became of that: the answer to the first command is none.
func TestRunRoundInTime_TheFirstMayStillCome(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	s := process.Semaphore("k")
	round := func(n uint64) protocol.Command {
		return s.Acquire(protocol.Round{Request: protocol.Request{Number: n, Oldest: n, Keep: time.Minute}}, []int{1})
	}
	takesSome := func(n int64) bool { return n > 0 }
	server.Do("SET", "k", "0")
	n, err := net.RunRoundInTime(round(1), takesSome).Int()
	require.NoError(t, err)
	require.Zero(t, n, "in time")

	// A busy machine may have sent the round before twice, and the proxy sees the other request later.
	ofRound := func(number string) func([]string) bool {
		return func(cmd []string) bool { return redistest.Command("EVALSHA")(cmd) && cmd[len(cmd)-7] == number }
	}
	asked := make(chan string, 10) // whether a request says that it was sent before
	proxy.OnRequest(func(cmd []string) {
		if ofRound("2")(cmd) {
			asked <- cmd[len(cmd)-4]
		}
	})
	lost := proxy.DropReply(ofRound("2"), 1, redistest.Mute)
	got := make(chan Reply, 1)
	go func() { got <- net.RunRoundInTime(round(2), takesSome) }()
	<-lost.Done()
	n, err = (<-got).Int()
	require.NoError(t, err)
	require.Zero(t, n, "the second answer")
	require.Equal(t, "0", <-asked)
	require.Equal(t, "1", <-asked)
	server.Do("SET", "k", "1")
	late := round(2) // comes now
	require.NoError(t, net.RunBeside(late).Err())
	held, err := server.Do("GET", "k").ToString()
	require.NoError(t, err)
	require.Equal(t, "1", held, "it takes nothing any more")

	// The second one is refused, the first is still under way, or its answer is.
	lost = proxy.DropReply(ofRound("3"), 1, redistest.Mute)
	server.Do("SET", "k", "0")
	proxy.OnRequest(func(cmd []string) {
		if ofRound("3")(cmd) && cmd[len(cmd)-4] == "1" {
			server.Do("EVAL", "redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], 'something', 'else')", "1", "k") // at once: there may be a third one
		}
	})
	require.ErrorIs(t, net.RunRoundInTime(round(3), takesSome).Err(), ErrNoAnswer)
	<-lost.Done()
	net.pace.took.Store(int64(time.Minute)) // so that it is sent once, however slow the machine is
	require.ErrorContains(t, net.RunRoundInTime(protocol.SentAgain(round(3)), takesSome).Err(), "WRONGTYPE", "sent once")
	server.Do("DEL", "k")

	dial := &stdnet.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
	for name, test := range map[string]struct {
		fails []error // the commands, in this order; the first one is the first
		want  error
		again bool
	}{
		"never sent":                  {[]error{dial}, dial, false},
		"broke":                       {[]error{io.EOF, io.EOF, io.EOF}, io.EOF, true},
		"broke, the other never sent": {[]error{io.EOF, dial}, ErrNoAnswer, true},
		"broke, the others closed":    {[]error{io.EOF, io.EOF, rueidis.ErrClosing}, ErrNoAnswer, true},
		"never sent, the other broke": {[]error{dial, io.EOF, io.EOF}, io.EOF, true},
	} {
		x := net.timely(round(4))
		x.round = true
		net.lateness.add(x)
		x.sent = len(test.fails)
		for i, err := range test.fails {
			x.replies <- timelyReply{Reply: Reply{rueidis.NewErrorResult(err)}, first: i == 0}
		}
		reply, again := x.await()
		require.Equal(t, test.want, reply.Err(), name)
		require.Equal(t, test.again, again, name)
	}

	// The first one, which was sent again, took nothing: that answers nothing, also if its answer comes first.
	server.Do("SET", "k", "0")
	nothing := net.Run(round(5))
	x := net.timely(round(6))
	x.round = true
	net.lateness.add(x)
	x.sent = 2
	x.replies <- timelyReply{Reply: nothing, first: true}
	x.replies <- timelyReply{Reply: nothing}
	reply, again := x.await()
	require.True(t, again)
	n, err = reply.Int()
	require.NoError(t, err)
	require.Zero(t, n)

	// None of the commands was sent.
	x = net.timely(round(7))
	net.lateness.add(x)
	x.sent = MostBeside
	for range x.sent {
		x.replies <- timelyReply{Reply: Reply{rueidis.NewErrorResult(dial)}}
	}
	reply, again = x.await()
	require.Equal(t, dial, reply.Err())
	require.False(t, again)

	proxy.Cut()
	close(stopped)
	net.Quit()
	u.wg.Wait()
	net.Unlisten()
}

// The shared connection is not avoided for a command that is late, and was answered, or has failed, a moment before.
func TestLateness_OfWhatIsAnswered(t *testing.T) {
	t.Parallel()
	net, process, _ := start(t, nil, Config{})
	cmd := process.Inspect(redistest.Key(t, "k"))
	l, x := &net.lateness, net.timely(cmd)
	l.add(x)
	x.comes(timelyReply{Reply: Reply{rueidis.NewErrorResult(io.EOF)}, first: true})
	l.mu.Lock()
	l.avoid(x)
	l.remove(x)
	l.mu.Unlock()
	require.False(t, net.overdue(cmd))
}

// A heir does nothing.
type heir struct{}

func (heir) again() protocol.Command { return protocol.Command{} }
func (heir) answered(Reply)          {}

// TestLateness_AfterAStandstill has the look for late answers come much too late itself, as in a process that was stopped: no request is sent again for
// that. A request that has no answer for a while after it is sent again.
func TestLateness_AfterAStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &Transport{}
		l := &net.lateness
		waits := func() *timely { // one from the pool may have a channel that was made outside of the bubble
			x := &timely{net: net, cmd: protocol.Command{Keys: []string{"k"}}, replies: make(chan timelyReply, 2*mostMute)}
			x.by, x.waits = heir{}, true // it is notified when the command is to be sent again
			l.add(x)
			return x
		}
		const stood = time.Minute
		pass := func(x *timely, looksLate bool) (again bool) { // a minute passes at once
			l.mu.Lock()
			x.at = x.at.Add(-stood)
			if looksLate {
				l.due = l.due.Add(-stood)
			}
			l.mu.Unlock()
			net.sendLate()
			return len(x.replies) > 0
		}
		x := waits()
		require.False(t, pass(x, true), "the process stood still, not the server")
		stands := time.Now()
		require.True(t, (<-x.replies).late)
		require.InDelta(t, leastPatience, time.Since(stands), float64(2*lookLate))
		require.True(t, pass(x, false), "the server stood still")

		y := waits()
		require.False(t, pass(y, true))
		require.True(t, pass(y, true), "that counts once")
		l.mu.Lock()
		l.remove(x)
		l.remove(y)
		l.mu.Unlock()
		synctest.Wait()
	})
}

// TestRunInTime_BrokenConnections shows that a command whose connection breaks is sent again at once, a few times, and that its outcome stays
// unknown although no connection can be made any more.
func TestRunInTime_BrokenConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks, sent int
		refuses      bool // no connection can be made after the first one has broken
	}{
		"none":              {sent: 1},
		"one":               {breaks: 1, sent: 2},
		"two":               {breaks: 2, sent: 3},
		"all":               {breaks: 10, sent: 3},
		"one, and no other": {breaks: 1, sent: 1, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			proxy := redistest.Proxy(t, server.Addr())
			one := func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 } // the proxy does not reset several at one moment
			rc := redistest.NewClient(t, proxy.Addr(), one)
			u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
			process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			stopped := make(chan struct{})
			net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
			t.Cleanup(func() { close(stopped); net.Quit(); net.Unlisten(); u.wg.Wait() })
			latch := process.Latch(redistest.Key(t, "l"))
			net.pace.took.Store(int64(time.Hour))            // a late command is sent again, too, and a busy machine is late
			require.NoError(t, net.Ask(latch.Count()).Err()) // connects, and loads the scripts

			sent := make(chan struct{}, 100)
			proxy.OnRequest(func(cmd []string) {
				if redistest.Command("EVALSHA")(cmd) {
					sent <- struct{}{}
					proxy.Refuse(test.refuses)
				}
			})
			if test.breaks > 0 {
				proxy.DropReply(redistest.Command("EVALSHA"), test.breaks, redistest.Close)
			}
			reply, again := net.RunInTime(nil, latch.Start(protocol.Request{Number: 1, Oldest: 1, Keep: time.Minute}, 1))
			require.Len(t, sent, test.sent)
			require.Equal(t, test.sent > 1 || test.refuses, again)
			if test.breaks >= MostBeside || test.refuses {
				require.True(t, Cut(reply.Err()), reply.Err())
				return
			}
			started, err := reply.Int()
			require.NoError(t, err)
			require.EqualValues(t, 1, started, "the first one did it")
		})
	}
}

// TestRunInTime_MuteConnections shows that a command is sent over more than [MostBeside] connections that are mute if the server answers others.
func TestRunInTime_MuteConnections(t *testing.T) {
	t.Parallel()
	const mute = MostBeside + 2
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	latch := process.Latch(redistest.Key(t, "l"))
	require.NoError(t, net.Ask(latch.Count()).Err()) // connects, and loads the scripts

	lost := proxy.DropReply(redistest.Command("EVALSHA"), mute, redistest.Mute)
	net.spoke.Store(int64(monotonic.Now().Add(time.Hour))) // to others, all the time
	answered := make(chan Reply, 1)
	go func() {
		reply, _ := net.RunInTime(nil, latch.Start(protocol.Request{Number: 1, Oldest: 1, Keep: time.Minute}, 1))
		answered <- reply
	}()
	select {
	case reply := <-answered:
		started, err := reply.Int()
		require.NoError(t, err)
		require.EqualValues(t, 1, started)
		require.Equal(t, mute, lost.Lost())
	case <-time.After(time.Minute):
		t.Error("it is not sent again")
	}
	proxy.Cut()
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// An alone is a fake that does all at once.
type alone struct{ *fake }

func (alone) Go(f func()) { f() }

// TestRunRoundInTime_InACluster shows that a round that the client of a cluster has sent again by itself is answered only by what it took: the
// first master may have run it.
func TestRunRoundInTime_InACluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value  string // of the semaphore
		breaks bool
		took   int64
		fails  string // the error, or nothing
	}{
		"took nothing":             {value: "0"},
		"took nothing, sent again": {value: "0", breaks: true, fails: ErrNoAnswer.Error()},
		"took some":                {value: "1", took: 1},
		"took some, sent again":    {value: "1", breaks: true, took: 1},
		"refused":                  {value: "a text", fails: "WRONGTYPE"},
		"refused when sent again":  {value: "a text", breaks: true, fails: ErrNoAnswer.Error()},
	} {
		both(t, name, func(t *testing.T, replicas int) {
			server, key := redistest.Shared(t), redistest.Key(t, "s")
			rc := &transporttest.Moving{Client: redistest.NewClient(t, server.Addr())}
			u := alone{&fake{rechecks: make(chan func(string) bool, 100)}}
			process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			net := New(Config{Client: rc, UUID: process.UUID, User: u, Replicas: replicas, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(net.Unlisten)
			s := process.Semaphore(key)
			round := func(n uint64) protocol.Command {
				return s.Acquire(protocol.Round{Request: protocol.Request{Number: n, Oldest: n, Keep: time.Minute}}, []int{1})
			}
			require.NoError(t, net.RunRoundInTime(round(1), nil).Err()) // loads the scripts, and learns who has the slots

			server.Do("SET", key, test.value)
			if test.breaks {
				rc.Breaks = redistest.Command("EVALSHA")
			}
			n, err := net.RunRoundInTime(round(2), nil).Int()
			require.Equal(t, test.breaks, net.Resent() == 1)
			if test.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.fails)
			}
			require.Equal(t, test.took, n)
			server.Do("DEL", key)
			if !test.breaks {
				rc.Breaks = redistest.Command("EVALSHA")
				_, again := net.RunGrantInTime(round(3), nil)
				require.True(t, again, "the client of the cluster has sent it again")
			}
		})
	}
}

// TestRunInTime_InACluster has the client of a cluster send a command again by itself, which fails: the first master may have run it, although
// the second one was never sent.
func TestRunInTime_InACluster(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{
		"refused": &stdnet.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"closed":  rueidis.ErrClosing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := &transporttest.Moving{Client: redistest.NewClient(t, redistest.Shared(t).Addr())}
			u := alone{&fake{rechecks: make(chan func(string) bool, 100)}}
			process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			net := New(Config{Client: rc, UUID: process.UUID, User: u, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(net.Unlisten)
			latch := process.Latch(redistest.Key(t, "l"))
			require.NoError(t, net.Ask(latch.Count()).Err()) // loads the scripts, and learns who has the slots
			net.pace.took.Store(int64(time.Hour))            // a late command is sent again, too, and a busy machine is late

			net.over.Store(name == "closed") // else the connection is taken for one to the old master
			rc.Breaks, rc.Then = redistest.Command("EVALSHA"), fails
			reply, again := net.RunInTime(nil, latch.Start(protocol.Request{Number: 1, Oldest: 1, Keep: time.Minute}, 1))
			require.ErrorIs(t, reply.Err(), fails)
			require.True(t, again)
		})
	}
}

// both runs a test without replicas that have to confirm a grant, and with one.
func both(t *testing.T, name string, test func(t *testing.T, replicas int)) {
	t.Helper()
	for replicas, of := range []string{name, name + ", with a replica"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			test(t, replicas)
		})
	}
}

// TestSettled has a command be sent twice and answered once: until its other answer comes, a client that stops has to expect its effects.
func TestSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan Reply)
		net := &Transport{link: link{cfg: Config{User: &fake{}, OpTimeout: 3 * time.Second}}}
		l := &net.lateness
		hold := func(protocol.Command) Reply { return <-answers }
		settled := func() bool {
			synctest.Wait()
			l.strays.mu.Lock()
			defer l.strays.mu.Unlock()
			return l.strays.n == 0
		}
		ask := func(takes bool) {
			x := &timely{net: net, cmd: protocol.Command{Keys: []string{"k"}}, replies: make(chan timelyReply, 2*mostMute), first: hold, takes: takes}
			x.begin = func() { x.comes(timelyReply{Reply: hold(x.cmd), first: true}) }
			done := make(chan bool)
			go func() {
				_, again := x.run()
				done <- again
			}()
			synctest.Wait()
			x.send(x.cmd, hold)
			l.mu.Lock()
			x.sent++
			l.mu.Unlock()
			answers <- Reply{}
			require.True(t, <-done)
			x.send(x.cmd, func(protocol.Command) Reply {
				t.Error("a command is sent again for a call that has returned")
				return Reply{}
			})
		}
		ended := func(settled <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-settled:
				return true
			default:
				return false
			}
		}
		begun := time.Now()
		<-net.Settled() // nothing was sent

		ask(false) // that one may not lock
		require.True(t, settled())
		answers <- Reply{}

		ask(true)
		require.False(t, settled())
		all, more := net.Settled(), net.Settled()
		require.False(t, ended(all), "one has no answer")
		answers <- Reply{}
		<-all
		<-more
		require.True(t, settled())

		l.strays.giveUp(net.longestStray())
		require.False(t, settled())
		<-net.Settled()
		require.Equal(t, 1500*time.Millisecond, time.Since(begun))
		require.True(t, settled())

		ask(true)
		require.True(t, ended(net.Settled()), "the time for all of them is over")
		answers <- Reply{}
		require.True(t, settled())
	})
}

// TestRunUntil_Left shows that a command is not sent again once nobody waits for its answer, neither when that is late nor when the connection
// breaks.
func TestRunUntil_Left(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	deserted, awaited := process.Latch(redistest.Key(t, "l")), process.Latch(redistest.Key(t, "m"))
	require.NoError(t, net.Ask(deserted.Count()).Err()) // connects, and loads the scripts

	sent := make(chan struct{}, 100)
	proxy.OnRequest(func(cmd []string) {
		if slices.Contains(cmd, deserted.Count().Keys[0]) {
			sent <- struct{}{}
		}
	})
	request := protocol.Request{Number: 1, Oldest: 1, Keep: time.Minute}
	proxy.DropRequest(redistest.Command("EVALSHA"), 1, redistest.Mute)
	left := make(chan struct{})
	close(left)
	answered := make(chan Reply, 1)
	go func() {
		reply, _ := net.RunUntil(left, deserted.Start(request, 1))
		answered <- reply
	}()
	<-sent
	require.Eventually(t, net.lateness.anywhere.Load, time.Minute, time.Millisecond, "its connection may be mute")
	reply, again := net.RunInTime(nil, awaited.Start(request, 1))
	require.False(t, again, "it goes over another connection")
	started, err := reply.Int()
	require.NoError(t, err)
	require.EqualValues(t, 1, started)
	require.Empty(t, answered)
	proxy.Cut()
	require.True(t, Cut((<-answered).Err()))
	require.Empty(t, sent)
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}
