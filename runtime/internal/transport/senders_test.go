package transport

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// crowded has the transport take itself for one of so many callers, whose server is near.
func crowded(net *Transport, callers int) {
	net.crowd.joins(callers)
	net.pace.took.Store(1)
}

// A watched request looks whether a sender has its turn while it makes the command, and while it answers.
type watched struct {
	taking

	look func(what string)
}

func (r watched) Append(to *protocol.Texts, again bool) {
	r.look("appends")
	r.taking.Append(to, again)
}

// A sender answers, gathers and sends in its turn, and nobody has the turn while a script is under way. A few callers, and those whose answers
// take long, take no turns.
func TestSenders_TakeTurns(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		callers int32
		took    time.Duration
		turns   bool
	}{
		"a crowd": {1e6, 1, true}, "few": {mostFew, 1, false}, "far": {1000, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newMuteTest(t)
			defer x.end()
			net := x.net
			b := net.Outbox().Batcher(x.process.Takes(), true)
			var free, taken atomic.Int32
			look := func(string) {
				switch {
				case b.box.turn.rest.Load() > 0: // two yields in a row took long: the machine is busy
				case b.box.turn.mu.TryLock():
					b.box.turn.mu.Unlock()
					free.Add(1)
				default:
					taken.Add(1)
				}
			}
			answers := make(chan error, 1)
			for n := uint64(0); n < 20 || of.turns && taken.Load() == 0; n++ {
				net.crowd.most.Store(of.callers)
				net.pace.took.Store(int64(of.took))
				b.box.turn.rest.Store(0)
				b.Submit(watched{taking{&x.process, x.key + strconv.FormatUint(n, 10), n + 1, func(_ protocol.Answer, _ bool, err error) {
					look("answers")
					answers <- err
				}}, look}, false)
				require.NoError(t, <-answers)
				atRest(t, b)
			}
			if of.turns {
				require.Zero(t, free.Load())
			} else {
				require.EqualValues(t, 40, free.Load())
			}

			lose := x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
			net.crowd.most.Store(of.callers)
			net.pace.took.Store(1)
			b.box.turn.rest.Store(0)
			b.Submit(x.taking(100, answers), false)
			<-lose.Done()
			b.box.turn.mu.Lock() // while there is no answer
			b.box.turn.end()
			require.NoError(t, <-answers)
			x.proxy.Cut()
		})
	}
}

// While the processors have other work, senders take no turns: a yield takes long then. One that takes long by chance changes nothing.
func TestTurn_BusyProcessors(t *testing.T) {
	t.Parallel()
	var x turn
	taken := func() bool {
		mine := x.begin(true)
		mine.end()
		return mine != nil
	}
	require.True(t, taken())
	for range 10 {
		x.yielded(longYield)
		require.True(t, taken())
		x.yielded(longYield - 1)
		require.True(t, taken())
	}
	for range 3 {
		x.yielded(longYield)
		x.yielded(longYield)
		for range busyRest {
			require.False(t, taken())
		}
		require.True(t, taken(), "perhaps the processors are idle again")
	}

	// A sender that has its turn does not gather any more, and one that waits for it takes none.
	looks := func() (n int) {
		x.long.Store(-1e6) // the machine may be busy
		x.gather(2, func() int {
			n++
			return 1
		})
		return n
	}
	require.Equal(t, mostYields+1, looks())
	x.rest.Store(busyRest)
	require.Equal(t, 1, looks())
	x.rest.Store(0)
	x.mu.Lock()
	waited := make(chan bool)
	go func() { waited <- taken() }()
	x.rest.Store(busyRest)
	x.mu.Unlock()
	require.False(t, <-waited)
}

// Each script has its turn. A sender in its turn takes a part of the crowd, and leaves the rest to the next one; but what one caller wants at once
// stays together. Without turns it takes all, and goes on with the same script.
func TestSenders_EachQueueInTurn(t *testing.T) {
	t.Parallel()
	var net Transport
	box := net.Outbox()
	takes, frees := box.Batcher(protocol.Batch{}, true), box.Batcher(protocol.Batch{}, false)
	s := box.one
	crowded(&net, 4*10)
	add := func(b *Batcher, n int) {
		for range n {
			s.add(b.kind, taking{})
		}
		s.added(b.kind, n)
	}
	alone := func(b *Batcher, n int) {
		for range n {
			add(b, 1)
		}
	}
	began(s)
	s.sending = mostSending // there is no other one to begin
	last := takes.kind
	want := func(turn *turn, b *Batcher, n int) {
		t.Helper()
		c := s.call(last, turn)
		last = b.kind
		require.Same(t, s.box.kinds[b.kind], c.kind)
		require.Len(t, c.some, n)
		require.Equal(t, 1, s.of[b.kind].scripts)
	}
	alone(takes, 25)
	alone(frees, 45)
	want(box.turn, takes, 10)
	want(box.turn, frees, 10)
	want(box.turn, takes, 10)
	want(box.turn, frees, 10)
	want(nil, frees, 25)
	want(nil, takes, 5)
	require.Zero(t, s.waiting)

	alone(takes, 5)
	add(takes, 15)
	alone(takes, 15)
	want(box.turn, takes, 20)
	want(box.turn, takes, 10)
	add(takes, 10)
	add(takes, 2*mostBatched)
	want(box.turn, takes, mostBatched)
	alone(takes, 20)
	want(box.turn, takes, mostBatched)
	want(box.turn, takes, 15)
	want(box.turn, takes, 10)
	want(box.turn, takes, 10)
	require.Zero(t, s.waiting)
	require.Nil(t, s.call(last, box.turn))
	require.Equal(t, mostSending-1, s.sending)
	require.Zero(t, s.of[takes.kind].scripts)
	require.Zero(t, s.of[frees.kind].scripts)
}

// Where senders take no turns, no request waits for a script of another kind; where they do, it waits until there are enough.
func TestSenders_Kinds(t *testing.T) {
	t.Parallel()
	for _, far := range []bool{false, true} {
		var net Transport
		box := net.Outbox()
		takes, frees := box.Batcher(protocol.Batch{}, true), box.Batcher(protocol.Batch{}, false)
		s := box.one
		crowded(&net, 4*10)
		if far {
			net.pace.took.Store(int64(time.Hour))
		}
		begins := func(b *Batcher) bool {
			first := len(s.of[b.kind].requests) == 0
			s.add(b.kind, taking{})
			require.Equal(t, first, s.added(b.kind, 1))
			return s.begins(b.kind)
		}
		require.True(t, begins(takes))
		require.False(t, begins(takes))
		require.Equal(t, far, begins(frees))
		require.False(t, begins(frees))
		waiting := func() int {
			if far {
				return len(s.of[takes.kind].requests) + 5 // an eighth of the crowd is enough
			}
			return s.waiting
		}
		for waiting() < 9 {
			require.False(t, begins(takes))
		}
		require.True(t, begins(takes))
	}
}

// Grants that replicas have to confirm have senders of their own, which take no turns: a release waits for none of them.
func TestOutbox_Confirmed(t *testing.T) {
	t.Parallel()
	for replicas := range 2 {
		net := Transport{link: link{cfg: Config{Replicas: replicas}}}
		box := net.Outbox()
		takes, acquires := box.Batcher(protocol.Batch{}, true), box.Batcher(protocol.Batch{}, true)
		frees := box.Batcher(protocol.Batch{}, false)
		confirms := replicas > 0
		require.Same(t, box, frees.box)
		require.False(t, box.confirms)
		require.NotNil(t, box.turn)
		require.Equal(t, confirms, takes.box != box && acquires.box != box && takes.box != acquires.box)
		require.Equal(t, confirms, takes.box.confirms)
		require.Equal(t, confirms, takes.box.turn == nil)
		review := net.Reviewer(protocol.Batch{}).box
		require.Equal(t, confirms, review.confirms)
		require.Nil(t, review.turn)
	}
}

// A stopped request does not go on when it is sent again, or when it is answered, until the test says so.
type stopped struct {
	taking

	again, answered bool
	stops           func()
}

func (r stopped) Append(to *protocol.Texts, again bool) {
	if again && r.again {
		r.stops()
	}
	r.taking.Append(to, again)
}

func (r stopped) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	if r.answered {
		r.stops()
	}
	r.taking.Answered(sent, reply, again, err)
}

// A script whose answer is late, one of a lone caller, and one whose requests are sent one after the other hold up nobody: not even requests that are
// fewer than a part of the crowd.
func TestSenders_HoldUpNobody(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"late", "late and alone", "in parts", "alone in parts"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newMuteTest(t)
			net := x.net
			net.Bound(time.Hour)
			net.spoke.Store(int64(monotonic.Now().Add(time.Hour)))
			require.True(t, net.Prompt())
			b := net.Outbox().Batcher(x.process.Takes(), true)
			answers, others := make(chan error, 2), make(chan error, 1)
			number := uint64(0)
			request := func(to chan error) taking {
				number++
				return x.taking(number, to)
			}
			stands, goOn := make(chan struct{}), make(chan struct{})
			stops := func() { stands <- struct{}{}; <-goOn }
			switch name {
			case "late":
				x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
				b.Submit(stopped{taking: request(answers), again: true, stops: stops}, false)
			case "late and alone":
				x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
				b.Submit(stopped{taking: request(answers), again: true, stops: stops}, true)
			default:
				net.pace.took.Store(int64(time.Hour)) // no answer is late
				b.SubmitAll([]Request{stopped{taking: request(answers), answered: true, stops: stops}, refused{request(answers)}}, name == "alone in parts")
			}
			<-stands
			crowded(net, 10*mostBatched)
			net.pace.took.Store(int64(time.Hour))
			for range 2 {
				b.Submit(request(others), false)
				require.NoError(t, <-others)
			}
			close(goOn)
			require.NoError(t, <-answers)
			if name == "in parts" || name == "alone in parts" {
				require.Error(t, <-answers)
			}
			atRest(t, b)
			x.proxy.Cut()
			x.end()
		})
	}
}

// Few scripts at a time have a goroutine that sends their requests one after the other. The sender of a further one does that itself.
func TestSenders_FewApart(t *testing.T) {
	t.Parallel()
	x := newMuteTest(t)
	b := x.net.Outbox().Batcher(x.process.Takes(), true)
	x.net.pace.took.Store(int64(time.Hour)) // no answer is late
	answers, stands, goOn := make(chan error, 2*mostApart+2), make(chan struct{}), make(chan struct{})
	request := func(key string, n uint64) taking {
		return taking{&x.process, x.key + key, n, func(_ protocol.Answer, _ bool, err error) { answers <- err }}
	}
	for n := range uint64(mostApart + 1) {
		key := strconv.FormatUint(n, 10)
		first := stopped{taking: request(key, n+1), answered: true, stops: func() { stands <- struct{}{}; <-goOn }}
		b.SubmitAll([]Request{first, refused{request(key+"-", n+1)}}, false)
		<-stands
	}
	require.Eventually(t, func() bool { // the senders of the others have ended
		b.box.mu.Lock()
		defer b.box.mu.Unlock()
		return b.box.one.aside == mostApart && b.box.one.sending == 1
	}, 10*time.Second, time.Millisecond)
	close(goOn)
	for range cap(answers) {
		<-answers
	}
	atRest(t, b)
	x.end()
}

// The requests of a sender whose answer is late are no reason for those behind them to wait for that answer.
func TestSenders_AnotherOneGoesOn(t *testing.T) {
	t.Parallel()
	x := newMuteTest(t)
	net := x.net
	b := net.Outbox().Batcher(x.process.Takes(), true)
	crowded(net, 10*mostBatched)
	answers := make(chan uint64, 2)
	request := func(n uint64) taking {
		return taking{&x.process, x.key + strconv.FormatUint(n, 10), n, func(_ protocol.Answer, _ bool, err error) {
			if err == nil {
				answers <- n
			}
		}}
	}
	lose := x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
	goOn := make(chan struct{})
	b.Submit(stopped{taking: request(1), again: true, stops: func() { <-goOn }}, false)
	<-lose.Done()
	b.Submit(request(2), false) // it waits for the answer to the script of the first one
	require.EqualValues(t, 2, <-answers)
	close(goOn)
	require.EqualValues(t, 1, <-answers)
	atRest(t, b)
	x.proxy.Cut()
	x.end()
}

// One script of requests that are in no hurry is under way at a time, also when its answer is late, or when each of its requests is sent alone.
func TestSenders_NoHurry(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"late", "in parts"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newMuteTest(t)
			b := x.net.Reviewer(x.process.Takes())
			answers := make(chan uint64, 10)
			request := func(n uint64) taking {
				return taking{&x.process, x.key + strconv.FormatUint(n, 10), n, func(protocol.Answer, bool, error) { answers <- n }}
			}
			stands, goOn := make(chan struct{}), make(chan struct{})
			stops := func() { stands <- struct{}{}; <-goOn }
			if name == "late" {
				x.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
				b.Submit(stopped{taking: request(1), again: true, stops: stops}, false)
			} else {
				x.net.pace.took.Store(int64(time.Hour)) // no answer is late
				b.SubmitAll([]Request{stopped{taking: request(1), answered: true, stops: stops}, refused{request(1)}}, false)
			}
			<-stands
			s := b.box.one
			b.Submit(request(2), false)
			b.box.mu.Lock()
			require.Equal(t, 1, s.sending)
			require.Equal(t, 1, s.waiting, "it waits for the answer to the first one")
			b.box.mu.Unlock()
			close(goOn)
			require.EqualValues(t, 1, <-answers)
			if name == "in parts" {
				require.EqualValues(t, 1, <-answers)
			}
			require.EqualValues(t, 2, <-answers)
			atRest(t, b)
			x.proxy.Cut()
			x.end()
		})
	}
}
