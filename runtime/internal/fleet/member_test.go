package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A server carries messages between members, and records the other commands.
type server struct {
	mu        sync.Mutex
	members   map[string]*Member
	performed []protocol.Command
	refuses   error                  // each request
	drops     func(text string) bool // loses a message
}

var errDenied = errors.New("denied")

func (s *server) Perform(cmd protocol.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.performed = append(s.performed, cmd)
	return s.refuses
}

func (s *server) Publish(channels, texts []string) (unheard []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, channel := range channels {
		m := s.members[strings.TrimPrefix(channel, protocol.ProcessChannel(""))]
		switch {
		case s.refuses != nil:
		case m == nil:
			unheard = append(unheard, i)
		case s.drops == nil || !s.drops(texts[i]):
			go m.Receive(texts[i])
		}
	}
	return unheard, s.refuses
}

func (s *server) Channels(string) (all []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.members {
		all = append(all, protocol.ProcessChannel(id))
	}
	slices.Sort(all)
	return all, s.refuses
}

func (s *server) Hears(ctx context.Context, _ string, stop <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	default:
		return true
	}
}

func (s *server) Fields(key string, fields []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]string, len(fields))
	for _, cmd := range s.performed {
		for field := range slices.Chunk(cmd.Args[1:], 2) {
			if i := slices.Index(fields, field[0]); cmd.Keys[0] == key && i >= 0 {
				values[i] = field[1]
			}
		}
	}
	return values, s.refuses
}

func (s *server) Owners(of []protocol.Owners, _ int) ([][]string, error) {
	return make([][]string, len(of)), s.refuses
}

func (*server) Refusal(err error) error { return err }

// A world has the locks of a member.
type world struct {
	watchdog *watchdog.Watchdog
	calls    []Call
	asked    func() // called when the member has asked whether a call waits; or nil
}

func (w *world) Leases(key string) []*watchdog.Lease {
	all, _ := w.watchdog.Leases(0)
	return slices.DeleteFunc(all, func(l *watchdog.Lease) bool { return l.Key() != key })
}

func (w *world) EachWaiting(key string, f func(c Call)) {
	for _, c := range w.calls {
		if key == "" || key == c.Key {
			f(c)
		}
	}
}

func (w *world) Waiting() bool {
	waiting := len(w.calls) > 0
	if w.asked != nil {
		w.asked()
	}
	return waiting
}

// above is the key of a context under a lease.
type above struct{}

func (*world) EachAbove(ctx context.Context, f func(l *watchdog.Lease)) {
	if l, ok := ctx.Value(above{}).(*watchdog.Lease); ok {
		f(l)
	}
}

// A holding is a lock that is held.
type holding struct {
	key   string
	since monotonic.Time
}

func (holding) Kind() string            { return string(observe.KindMutex) }
func (h holding) Key() string           { return h.key }
func (h holding) Owner() string         { return "owner of " + h.key }
func (h holding) Began() monotonic.Time { return h.since }
func (holding) Lost(error)              {}

func (h holding) Show() Shown {
	return Shown{Name: "orders.Service.Pay", Since: h.since, Holds: 1, Ctx: context.Background()}
}

// A process is a member with its locks, and what it logs.
type process struct {
	*Member
	*world

	log *bytes.Buffer
}

func (s *server) join(tb testing.TB, id string) *process {
	tb.Helper()
	p := &process{world: &world{}, log: &bytes.Buffer{}}
	p.watchdog = watchdog.New(func(ls []*watchdog.Lease, _ []time.Duration) []error { return make([]error, len(ls)) },
		func() int { return 100 }, func(*watchdog.Lease, error) {})
	spawn := func(f func()) { go f() }
	p.Member = New(Config{
		UUID: id, Name: "orders", Net: s, Locks: p.world, Watchdog: p.watchdog, Hooks: &observe.Hooks{},
		Logger: slog.New(slog.NewTextHandler(p.log, nil)), Hear: func() {}, Spawn: spawn, Detach: spawn, Closing: make(chan struct{}),
		OpTimeout: time.Minute, Lease: 30 * time.Second, Interval: 5 * time.Second,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = map[string]*Member{}
	}
	s.members[id] = p.Member
	tb.Cleanup(p.watchdog.Close)
	return p
}

// hold has p hold a lock for a fixed time, until it calls release.
func (p *process) hold(key string, ttl time.Duration) (release func()) {
	l := &watchdog.Lease{Holding: holding{key, monotonic.Now()}, TTL: ttl}
	p.watchdog.Start(l, time.Now(), ttl)
	p.Present()
	return func() { p.watchdog.Stop(l) }
}

// timed runs a test in virtual time.
func timed(t *testing.T, f func(t *testing.T, s *server)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, &server{}) })
}

// A process whose locks are all short says nothing, even when it happens to hold one while its timer looks.
func TestPresence_ShortLocksSayNothing(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p := s.join(t, "a")
		for range 1000 {
			release := p.hold("k", time.Minute)
			held, _ := p.watchdog.Leases(0)
			p.Renewing(held)
			<-time.After(70 * time.Millisecond)
			release()
		}
		<-time.After(time.Minute)
		synctest.Wait()
		require.False(t, p.armed.Load(), "the timer rests while nothing is held")
		require.Empty(t, s.performed)
	})
}

// A process describes itself also if it takes its lock at the moment in which the timer finds none and rests.
func TestPresence_ALockWhileTheTimerLooks(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p := s.join(t, "a")
		looked := make(chan struct{})
		p.asked = sync.OnceFunc(func() {
			p.hold("long", time.Hour)
			close(looked)
		})
		p.hold("short", time.Minute)()
		<-looked
		<-time.After(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, s.performed)
	})
}

// A process that holds a lock, or waits, for a third of the watchdog time describes itself, and again while it does.
func TestPresence_LongOnesDo(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p := s.join(t, "a")
		release := p.hold("k", time.Hour)
		none, err := p.ProcessOf("a")
		require.NoError(t, err)
		require.Nil(t, none)
		<-time.After(time.Minute)
		synctest.Wait()
		require.InDelta(t, 5, len(s.performed), 1)
		known, err := p.ProcessOf("a")
		require.NoError(t, err)
		want := p.Process()
		want.Started = want.Started.UTC().Truncate(time.Second)
		require.Equal(t, want, *known)

		release()
		<-time.After(time.Minute)
		synctest.Wait()
		n := len(s.performed)
		p.calls = []Call{{Since: monotonic.Now()}}
		p.Present()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Greater(t, len(s.performed), n+3)

		p.Leave()
		n = len(s.performed)
		p.Present()
		<-time.After(time.Minute)
		require.Len(t, s.performed, n)
	})
}

// A process that is denied to describe itself logs that once, and tries no more.
func TestPresence_Denied(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		s.refuses = errDenied
		p := s.join(t, "a")
		p.hold("k", time.Hour)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Len(t, s.performed, 1)
		require.Equal(t, 1, strings.Count(p.log.String(), "the name of this process cannot be written"))
	})
}

// Processes answer, but those that have ended, and those whose answer is lost. An answer has a bounded length.
func TestAsk(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		ids := []string{"asks", "far", "many", "mute"}
		var all []*process
		for _, id := range ids {
			p := s.join(t, id)
			p.hold("k:"+id, time.Hour)
			all = append(all, p)
		}
		for i := range 2000 {
			all[2].hold(fmt.Sprint("more:", i), time.Hour)
		}
		s.drops = func(text string) bool { return strings.Contains(text, "k:mute") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f, asked := all[0].Ask(ctx, append(ids, "over"), "")
		require.True(t, asked)
		require.Equal(t, []string{"mute"}, f.Silent)
		require.Len(t, f.Processes, 3)
		for i, want := range []int{1, 1, mostReported / 2} {
			require.Len(t, f.Processes[i].Held, want)
		}
		require.Equal(t, 2001-mostReported/2, f.Processes[2].Omitted)

		f, asked = all[0].Ask(t.Context(), []string{"far", "over"}, "k")
		require.True(t, asked)
		require.Empty(t, f.Silent)
		require.Len(t, f.Processes, 1)
		require.Empty(t, f.Processes[0].Held)
		require.Zero(t, all[0].Asking())

		_, asked = all[0].Ask(ctx, ids, "")
		require.False(t, asked, "a process that cannot hear asks nobody")
	})
}

// A report that has no room for all calls has those that wait under a lease, and then those that have waited longest.
func TestLook_CallsOfDeadlocksFirst(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p := s.join(t, "a")
		lease := &watchdog.Lease{Holding: holding{"x", monotonic.Now()}, TTL: time.Hour}
		under := context.WithValue(t.Context(), above{}, lease)
		const circles, others = 6, 900
		for i := range others {
			age := time.Duration(i*7919%others) * time.Millisecond // in no order
			p.calls = append(p.calls, Call{Key: "aa", Name: fmt.Sprint(age), Since: monotonic.Now().Add(-age), Ctx: t.Context()})
		}
		for i := range circles {
			p.calls = append(p.calls, Call{Key: fmt.Sprint("y", i), Since: monotonic.Now(), Ctx: under})
		}
		r := p.Look("", mostReported)
		require.Len(t, r.Waiting, mostReported/2)
		require.Equal(t, circles+others-mostReported/2, r.Omitted)
		named := map[string]bool{}
		for _, w := range r.Waiting {
			named[w.Key], named[w.Name] = true, true
		}
		for i := range circles {
			require.True(t, named[fmt.Sprint("y", i)])
		}
		for i := range mostReported/2 - circles {
			require.True(t, named[fmt.Sprint(time.Duration(others-1-i)*time.Millisecond)], i)
		}
		require.Len(t, p.Look("", 0).Waiting, circles+others)
	})
}

// Keys that are not UTF-8 arrive as they are, although an answer is JSON.
func TestAsk_KeysOfBytes(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p, far := s.join(t, "asks"), s.join(t, "far")
		far.hold("k:\xff", time.Hour)
		far.hold("k:\xfe\xff", time.Hour)
		far.calls = []Call{{Key: "w:\xff", Ctx: t.Context()}}
		f, asked := p.Ask(t.Context(), []string{"far"}, "")
		require.True(t, asked)
		var keys []string
		for _, h := range f.Processes[0].Held {
			keys = append(keys, h.Key)
		}
		require.ElementsMatch(t, []string{"k:\xff", "k:\xfe\xff"}, keys)
		require.Equal(t, "w:\xff", f.Processes[0].Waiting[0].Key)
	})
	w := observe.WaitingCall{Key: "\xff", Under: []observe.LeaseRef{{Key: "plain"}, {Key: "\xfe"}}}
	var m message
	require.NoError(t, json.Unmarshal([]byte(partsOf(observe.Snapshot{Waiting: []observe.WaitingCall{w}}, "1")[0]), &m))
	require.Equal(t, []observe.WaitingCall{w}, m.read().Waiting)
}

// A process that is asked too often refuses, and is asked again a second later.
func TestAsk_Refused(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		p, _ := s.join(t, "asks"), s.join(t, "far")
		start := time.Now()
		var all sync.WaitGroup
		for range mostAnswers + 5 {
			all.Go(func() {
				f, asked := p.Ask(t.Context(), []string{"far"}, "")
				require.True(t, asked)
				require.Len(t, f.Processes, 1)
			})
		}
		all.Wait()
		require.Equal(t, pacePeriod, time.Since(start))
	})
}

// A process that is denied to answer logs that once.
func TestAsk_Denied(t *testing.T) {
	timed(t, func(t *testing.T, s *server) {
		s.refuses = errDenied
		p := s.join(t, "a")
		for range 3 {
			require.True(t, p.Receive("ask 1 "+protocol.ProcessChannel("b")))
		}
		synctest.Wait()
		require.Equal(t, 1, strings.Count(p.log.String(), "cannot be answered"))
		require.False(t, p.Receive("1"), "the number of a ticket")
	})
}

// Requests are counted by the second.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	at := monotonic.Time(time.Hour)
	for i := range 25 {
		require.Equal(t, i+1, p.take(at.Add(time.Duration(i)*39*time.Millisecond)))
	}
	require.Equal(t, 1, p.take(at.Add(time.Second)))
	require.Equal(t, 2, p.take(at.Add(2*time.Second-1)))
	require.Equal(t, 1, p.take(at.Add(2*time.Second)))
}

// BenchmarkAnswer is what a process does when it is asked: with 100 locks, with as many as it names, and with 100 times that.
func BenchmarkAnswer(b *testing.B) {
	for _, n := range []int{100, mostReported, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := new(server).join(b, "a")
			for i := range n {
				p.hold(fmt.Sprintf("%s:%d", b.Name(), i), time.Hour)
			}
			b.ReportAllocs()
			for b.Loop() {
				partsOf(p.Look("", mostReported), "1")
			}
		})
	}
}
