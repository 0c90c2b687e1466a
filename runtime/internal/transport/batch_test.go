package transport

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A muteTest has a transport whose connections are found to be mute by nothing but their late answers.
type muteTest struct {
	proxy   *redistest.FaultProxy
	net     *Transport
	process protocol.Process
	key     string
	end     func() // ends the transport, and waits for its goroutines
}

func newMuteTest(t *testing.T) *muteTest {
	t.Helper()
	x := &muteTest{proxy: redistest.Proxy(t, redistest.Shared(t).Addr()), key: redistest.Key(t, "k")}
	rc := redistest.NewClient(t, x.proxy.Addr(), func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.PipelineMultiplex, o.ForceSingleClient = time.Hour, -1, true
	})
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	x.process = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	x.net = New(Config{Client: rc, UUID: x.process.UUID, User: u, Stopped: stopped, OpTimeout: time.Hour})
	x.end = func() {
		close(stopped)
		x.net.Quit()
		u.wg.Wait()
		x.net.Unlisten()
	}
	require.NoError(t, x.net.Run(x.process.Inspect(x.key)).Err())
	return x
}

// taking returns a request for a key of its own, with the number n, whose error goes to answers.
func (x *muteTest) taking(n uint64, answers chan<- error) taking {
	return taking{&x.process, x.key + strconv.FormatUint(n, 10), n, func(_ protocol.Answer, _ bool, err error) { answers <- err }}
}

// The answer to a script is lost, or the script itself, on a connection that is found to be mute after an hour. It is sent again over
// another connection, whether the caller is one of a crowd or alone, and what comes behind it does not wait for the mute connection.
func TestBatcher_GoesRoundAMuteConnection(t *testing.T) {
	t.Parallel()
	const behind = 10
	for name, way := range map[string]struct{ inline, own bool }{
		"in a crowd":                          {},
		"alone, over the shared connection":   {inline: true},
		"alone, over a connection of its own": {inline: true, own: true},
	} {
		for _, lost := range []string{"reply", "request"} {
			t.Run(name+"/"+lost, func(t *testing.T) {
				t.Parallel()
				x := newMuteTest(t)
				proxy, net, process, key := x.proxy, x.net, &x.process, x.key
				net.Bound(time.Hour)
				if way.own {
					net.markShared()
					madeDirect(t, net)
				}
				net.spoke.Store(int64(monotonic.Now().Add(time.Hour))) // a moment ago, however slow the machine is
				require.True(t, net.Prompt())

				type answer struct {
					granted, again bool
					err            error
				}
				b := net.Outbox().Batcher(process.Takes(), true)
				answers := make(chan answer, 2*behind)
				take := func(n int) Request {
					return taking{process, key + strconv.Itoa(n), uint64(n + 1), func(reply protocol.Answer, again bool, err error) {
						answers <- answer{protocol.ReadAcquire(reply).Granted(), again, err}
					}}
				}
				drop := proxy.DropReply
				if lost == "request" {
					drop = proxy.DropRequest
				}
				lose := drop(redistest.Command("EVALSHA"), 1, redistest.Mute)
				b.Submit(take(0), way.inline)
				require.Equal(t, answer{granted: true, again: true}, <-answers)
				<-lose.Done()
				for i := range behind {
					b.Submit(take(i+1), false)
				}
				for range behind {
					got := <-answers
					require.NoError(t, got.err)
					require.True(t, got.granted)
				}
				require.Empty(t, answers, "each is answered once")

				proxy.Cut()
				x.end()
				require.Empty(t, answers, "also when the mute connection has ended")
			})
		}
	}
}

// The first late answer over a connection has all that comes later go round it, without waiting for another late one, until it has
// answered, or failed.
func TestBatcher_AvoidsAMuteConnection(t *testing.T) {
	t.Parallel()
	for name, pipelined := range map[string]bool{"that nobody else uses": false, "of a crowd": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newMuteTest(t)
			net, process, key := x.net, &x.process, x.key
			net.Bound(time.Hour)
			if pipelined {
				net.markShared()
			}
			b, taken := net.Outbox().Batcher(process.Takes(), true), make(chan error, 1)
			take := func(n uint64, inline bool) {
				b.Submit(x.taking(n, taken), inline)
				require.NoError(t, <-taken)
			}
			lose := x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
			take(1, false)
			<-lose.Done()
			net.pace.took.Store(int64(time.Hour)) // from here on no answer is late that comes before the test is over
			net.spoke.Store(int64(monotonic.Now().Add(time.Hour)))
			for n := range uint64(5) {
				take(2+n, false)
				take(20+n, !pipelined) // else there may be a direct connection soon
				require.NoError(t, net.Run(process.Inspect(key)).Err())
				require.NoError(t, net.Ask(process.Inspect(key)).Err())
			}
			require.True(t, net.overdue(process.Inspect(key)))
			x.proxy.Cut()
			require.Eventually(t, func() bool { return !net.overdue(process.Inspect(key)) }, time.Minute, time.Millisecond)
			require.Eventually(t, func() bool { return net.Run(process.Inspect(key)).Err() == nil }, time.Minute, time.Millisecond)
			x.end()
			require.False(t, net.lateness.anywhere.Load())
			require.Zero(t, net.traffic.stuck.Load())
			require.Zero(t, net.traffic.sending.Load())
		})
	}
}

// A lone caller does not wait for a mute connection that rueidis has pipelined by itself, as it does when its own PING and a command
// of the caller meet.
func TestBatcher_ALoneCallerOnAPipelinedConnection(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"the shared one": false, "one of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newMuteTest(t)
			net, process, key := x.net, &x.process, x.key
			net.Bound(time.Hour)
			pipelines, end := context.WithCancel(t.Context())
			defer end()
			if own {
				net.markShared()
				madeDirect(t, net)
				conn := net.direct.all[0].idle.Load().conn
				require.NoError(t, conn.Do(pipelines, conn.B().Ping().Build()).Error())
			} else {
				require.NoError(t, net.rc.Do(pipelines, net.rc.B().Ping().Build()).Error())
			}
			net.spoke.Store(int64(monotonic.Now().Add(time.Hour)))
			lose := x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
			type answer struct {
				granted, again bool
			}
			answers := make(chan answer, 2)
			net.Outbox().Batcher(process.Takes(), true).Submit(taking{process, key, 1, func(reply protocol.Answer, again bool, err error) {
				answers <- answer{err == nil && protocol.ReadAcquire(reply).Granted(), again}
			}}, true)
			require.Equal(t, answer{granted: true, again: true}, <-answers)
			<-lose.Done()
			require.True(t, net.pipelined.Load(), "no lone caller sends over the shared one any more")
			require.False(t, own && (net.Idle() || net.direct.all[0].made.Load()), "nor over a pipelined one of its own, for which there may be another")
			net.lateness.strays.mu.Lock()
			require.NotZero(t, net.lateness.strays.n, "the command that was given up may still lock the key")
			net.lateness.strays.mu.Unlock()
			x.proxy.Cut()
			x.end()
			require.Empty(t, answers)
		})
	}
}

// A caller of many keys is as alone as one of a single key: it sends over the direct connection, again and again.
func TestBatcher_ALoneCallerOfManyKeys(t *testing.T) {
	t.Parallel()
	x := newDirectTest(t)
	defer x.end()
	net := x.net
	b := net.Outbox().Batcher(x.process.Takes(), true)
	answers := make(chan error, 2*mostBatched)
	number := uint64(0)
	requests := func(n int) (all []Request) {
		for range n {
			number++
			all = append(all, x.taking(number, answers))
		}
		return all
	}
	answered := func(n int) {
		for range n {
			require.NoError(t, <-answers)
		}
	}
	alone := func(n int) {
		before := net.direct.all[0].idle.Load().used
		b.SubmitAll(requests(n), true)
		if n <= mostBatched {
			require.Len(t, answers, n, "on the goroutine of the caller")
			require.Greater(t, net.direct.all[0].idle.Load().used, before, "over its connection")
		}
		answered(n)
	}
	for _, n := range []int{1, 2, 20, 20, mostBatched} {
		alone(n)
	}
	alone(mostBatched + 1)
	atRest(t, b)

	// The server refuses the script because of one request, and each is sent by itself; then the next caller is as alone as before.
	rs := requests(2)
	rs[0] = refused{rs[0].(taking)} //nolint:forcetypeassert // this test has made it
	b.SubmitAll(rs, true)
	require.Error(t, <-answers)
	require.NoError(t, <-answers)
	atRest(t, b)
	alone(2)
}

// While a script of another caller is under way, one of few callers sends over the direct connection, on its own goroutine. One of many
// leaves its request to a sender, which takes that connection.
func TestBatcher_SeveralCallers(t *testing.T) {
	t.Parallel()
	x := newDirectTest(t)
	defer x.end()
	net := x.net
	b := net.Outbox().Batcher(x.process.Takes(), true)
	s := b.box.one
	answers := make(chan error, 2)
	began(s) // the script of another caller is under way
	before := net.direct.all[0].idle.Load().used
	b.Submit(x.taking(1, answers), true)
	require.Len(t, answers, 1, "on the goroutine of the caller")
	require.NoError(t, <-answers)
	require.Greater(t, net.direct.all[0].idle.Load().used, before)

	// A caller gets the call for its own requests at once, so that it is not blocked for those of another one.
	begin := func(numbers ...uint64) (*call, *exclusive) {
		b.box.mu.Lock()
		defer b.box.mu.Unlock()
		for _, n := range numbers {
			s.add(b.kind, x.taking(n, answers))
		}
		return s.begin(b.kind, 1, true)
	}
	c, own := begin(3)
	require.Len(t, c.some, 1)
	require.Zero(t, s.waits())
	c.runAlone(own)
	require.NoError(t, <-answers)
	c, _ = begin(4, 5)
	require.Nil(t, c, "it is not alone in the queue")
	for range 2 {
		require.NoError(t, <-answers)
	}
	require.Eventually(t, func() bool { // the sender of these two has ended
		b.box.mu.Lock()
		defer b.box.mu.Unlock()
		return s.sending == 1
	}, time.Minute, time.Millisecond)

	net.crowd.joins(10 * mostFew)
	before = net.direct.all[0].idle.Load().used
	b.Submit(x.taking(2, answers), true)
	require.Empty(t, answers)
	c = s.call(b.kind, nil) // of the sender that the test plays
	reply, short, left := c.run(c.command())
	require.False(t, left)
	require.False(t, c.answer(reply, short))
	c.recycle()
	require.NoError(t, <-answers)
	require.Greater(t, net.direct.all[0].idle.Load().used, before)
}

// The direct connection is made for several callers, also if none may be blocked until it is answered, and not for one of these that is alone.
func TestBatcher_SeveralCallersHaveADirectConnectionMade(t *testing.T) {
	t.Parallel()
	x := newMuteTest(t)
	defer x.end()
	net := x.net
	net.Bound(time.Hour)
	net.direct.rest = time.Hour
	b := net.Outbox().Batcher(x.process.Takes(), true)
	number := uint64(0)
	take := func() {
		number++
		answered := make(chan error, 1)
		b.Submit(x.taking(number, answered), false)
		require.NoError(t, <-answered)
	}
	for range 10 {
		take()
	}
	require.False(t, net.direct.all[0].made.Load())
	net.crowd.joins(2)
	require.Eventually(t, func() bool {
		take()
		return net.Idle()
	}, time.Minute, time.Millisecond)
}

// began counts a sender of the first kind that the test plays.
func began(s *senders) { s.sending, s.of[0].scripts = 1, 1 }

// atRest waits until the outbox of b has nothing under way.
func atRest(t *testing.T, b *Batcher) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.box.mu.Lock()
		defer b.box.mu.Unlock()
		return b.box.one.sending == 0 && b.box.one.aside == 0 && b.box.one.shrink()
	}, time.Minute, time.Millisecond)
}

// A refused request has a lease that is no number.
type refused struct{ taking }

func (r refused) Append(to *protocol.Texts, _ bool) {
	to.Keys, to.Args = append(to.Keys, r.key), append(to.Args, "owner", "no number")
}

// A counted request knows how often it was sent.
type counted struct {
	taking

	times *int
}

func (r counted) Append(to *protocol.Texts, again bool) {
	*r.times++
	r.taking.Append(to, again)
}

// A server that runs a long script refuses all requests of a script for the same reason, so none is sent alone.
func TestBatcher_BusyServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("lua-time-limit", "1"))
	net, process, _ := start(t, server, Config{})
	b := net.Outbox().Batcher(process.Takes(), true)
	answers := make(chan error, 3)
	times := 0
	ask := func() {
		requests := make([]Request, cap(answers))
		for i := range requests {
			requests[i] = counted{taking{process, "k" + strconv.Itoa(i), uint64(i) + 1, func(_ protocol.Answer, _ bool, err error) { answers <- err }}, &times}
		}
		b.SubmitAll(requests, false)
	}
	ask()
	for range cap(answers) {
		require.NoError(t, <-answers)
	}
	require.Equal(t, 3, times)

	stop := busy(t, server)
	ask()
	for range cap(answers) {
		require.ErrorContains(t, <-answers, "BUSY")
	}
	require.Equal(t, 6, times)
	stop()
	atRest(t, b)
}

// A command that is sent over another connection does not change those before it, which may still be sent, or be sent again to a server that has lost
// the script; nor does what the call is used for later.
func TestCall_LeavesTheCommandsBeforeAsTheyAre(t *testing.T) {
	t.Parallel()
	net, process, _ := start(t, nil, Config{})
	b := net.Outbox().Batcher(process.Takes(), true)
	answered := make(chan bool, 1) // whether it was sent again
	c := calls.Get().(*call)
	c.of, c.kind, c.some = b.box.one, b.box.kinds[b.kind], append(c.some[:0], taking{process, redistest.Key(t, "k"), 1, func(_ protocol.Answer, again bool, err error) {
		answered <- again && err == nil
	}})
	began(b.box.one)
	first := c.command()
	keys, args := slices.Clone(first.Keys), slices.Clone(first.Args)
	second := c.again()
	reply := net.Run(second)
	c.answered(reply)
	require.True(t, <-answered)
	for _, cmd := range []protocol.Command{first, second} {
		require.Equal(t, keys, cmd.Keys)
		require.Equal(t, args, cmd.Args)
	}
	require.NotSame(t, &first.Keys[0], &second.Keys[0])
	require.Zero(t, b.box.one.sending)
	require.Zero(t, b.box.one.aside)
}

// Too few replicas make a grant one that is not confirmed, and leave a refusal as it is. A request that the client of a cluster has sent again counts as
// sent again.
func TestCall_Answers(t *testing.T) {
	t.Parallel()
	net, process, _ := start(t, nil, Config{})
	key := redistest.Key(t, "k")
	require.NoError(t, redistest.Shared(t).Do("HSET", key+"1", "another", "1").Error())
	b := net.Outbox().Batcher(process.Takes(), true)
	short := errors.New("too few")
	for _, resent := range []bool{false, true} {
		var errs []error
		c := new(call)
		c.of, c.kind = b.box.one, b.box.kinds[b.kind]
		for n := range uint64(2) {
			c.some = append(c.some, taking{process, key + strconv.FormatUint(n, 10), n + 1, func(reply protocol.Answer, again bool, err error) {
				require.Equal(t, resent, again)
				require.False(t, protocol.ReadAcquire(reply).Granted())
				errs = append(errs, err)
			}})
		}
		reply := net.Run(c.command())
		require.NoError(t, reply.Err())
		if resent {
			c.resends++
		}
		require.False(t, c.answer(reply, short))
		require.Equal(t, []error{short, nil}, errs)
		require.NoError(t, redistest.Shared(t).Do("DEL", key+"0").Error())
	}
}

// Nothing is kept for a slot of a cluster without requests.
func TestBatcher_ForgetsSlots(t *testing.T) {
	t.Parallel()
	b := new(Transport).Outbox().Batcher(protocol.Batch{}, true)
	box := b.box
	box.slots = map[uint16]*senders{}
	s := box.of("k")
	require.Same(t, s, box.of("k"))
	s.add(b.kind, taking{key: "k"})
	began(s)
	c := s.call(b.kind, nil)
	require.Len(t, c.some, 1)
	s.sending++
	s.setAside(c)
	require.Nil(t, s.call(b.kind, nil))
	require.Len(t, box.slots, 1, "a script is under way")
	s.ends(c)
	require.Empty(t, box.slots)
}

// Requests that are sent one after the other, since the server refuses their script, are not held up by a mute connection.
func TestBatcher_SplitGoesRoundAMuteConnection(t *testing.T) {
	t.Parallel()
	x := newMuteTest(t)
	server, proxy, net, process, key := redistest.Shared(t), x.proxy, x.net, &x.process, x.key
	server.Do("SET", key+"1", "no lock")
	type answer struct {
		n              int
		granted, again bool
		refused        bool
	}
	answers := make(chan answer, 10)
	b := net.Outbox().Batcher(process.Takes(), true)
	c := calls.Get().(*call)
	c.of, c.kind, c.some = b.box.one, b.box.kinds[b.kind], c.some[:0]
	for n := range 3 {
		c.some = append(c.some, taking{process, key + strconv.Itoa(n), uint64(n + 1), func(reply protocol.Answer, again bool, err error) {
			_, refused := rueidis.IsRedisErr(err)
			answers <- answer{n, err == nil && protocol.ReadAcquire(reply).Granted(), again, refused}
		}})
	}
	net.pace.took.Store(int64(time.Hour)) // no answer is late
	reply, short, left := c.run(c.command())
	require.False(t, left)
	require.False(t, c.answer(reply, short), "it is an answer to one of them")
	for n := range 3 {
		require.Equal(t, answer{n: n, granted: n != 1, refused: n == 1}, <-answers)
		server.Do("DEL", key+"0", key+"2")
	}
	net.pace.took.Store(0)
	lose := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
	c.split()
	<-lose.Done()
	require.Equal(t, answer{granted: true, again: true}, <-answers)
	for n := 1; n < 3; n++ { // these go round it at once
		got := <-answers
		got.again = false // but for a slow machine
		require.Equal(t, answer{n: n, granted: n != 1, refused: n == 1}, got)
	}
	proxy.Cut()
	x.end()
	require.Empty(t, answers, "each is answered once")
}

// A request that was sent three times, of which no answer came, fails once, when all connections have ended.
func TestBatcher_AllConnectionsAreMute(t *testing.T) {
	t.Parallel()
	x := newMuteTest(t)
	proxy, net, process, key := x.proxy, x.net, &x.process, x.key
	type failure struct {
		again, unknown bool
	}
	failed := make(chan failure, 10)
	lose := proxy.DropReply(redistest.Command("EVALSHA"), MostBeside, redistest.Mute)
	net.Outbox().Batcher(process.Takes(), true).Submit(taking{process, key, 1, func(_ protocol.Answer, again bool, err error) {
		failed <- failure{again, Unknown(err)}
	}}, false)
	<-lose.Done()
	require.Empty(t, failed)
	proxy.Cut()
	require.Equal(t, failure{again: true, unknown: true}, <-failed)
	x.end()
	require.Empty(t, failed)
}

// One script has more of the requests that are in no hurry, and each of them once. A request of which nothing is left in the queue is
// kept alive by none.
func TestBatcher_Reviewer(t *testing.T) {
	t.Parallel()
	net, process, _ := start(t, nil, Config{})
	for most, b := range map[int]*Batcher{
		mostBatched: net.Outbox().Batcher(process.Acquires(), true), mostReviewed: net.Reviewer(process.Acquires()),
	} {
		const all = 2*mostReviewed + 1
		s := b.box.one
		q := &s.of[b.kind]
		for n := range all {
			s.add(b.kind, taking{number: uint64(n)})
		}
		began(s)
		require.Equal(t, most == mostBatched, s.begins(b.kind), "one script beside another")
		s.sending, s.of[b.kind].scripts = mostSending, mostSending // there is no other one to begin
		var sizes []int
		next := uint64(0)
		for s.waiting > 0 {
			c := s.call(b.kind, nil)
			sizes = append(sizes, len(c.some))
			for _, r := range c.some {
				require.Equal(t, next, r.(taking).number) //nolint:forcetypeassert // this test has put it there
				next++
			}
			c.recycle()
		}
		require.EqualValues(t, all, next)
		want := slices.Repeat([]int{most}, all/most)
		require.Equal(t, append(want, 1), sizes)
		require.Empty(t, slices.DeleteFunc(q.requests[:cap(q.requests)], func(r Request) bool { return r == nil }))

		for _, room := range []int{keptRoom, keptRoom + 1} {
			q.requests = make([]Request, 0, room)
			began(s)
			require.Nil(t, s.call(b.kind, nil))
			require.Equal(t, room == keptRoom, cap(q.requests) > 0, "room is kept for the next requests, but not for very many")
		}
	}
}

// Requests that are in no hurry wait for others before the first script is sent.
func TestBatcher_ReviewerGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &fake{}
		net := &Transport{link: link{cfg: Config{User: u}}}
		b := net.Reviewer(protocol.Batch{})
		begin := time.Now()
		for n := range 3 {
			b.Submit(taking{number: uint64(n)}, true)
			synctest.Wait()
		}
		s := b.box.one
		b.box.mu.Lock()
		require.Len(t, s.of[b.kind].requests, 3)
		require.Equal(t, 1, s.sending)
		s.of[b.kind].requests, s.waiting = nil, 0 // there is no server
		b.box.mu.Unlock()
		u.wg.Wait()
		require.Equal(t, gatherReviews, time.Since(begin))
		require.Zero(t, s.sending)
	})
}
