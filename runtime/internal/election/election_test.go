package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/transport/transporttest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A rester is a host of which only the pauses count.
type rester struct {
	Host

	paused int
}

func (r *rester) Pause(time.Duration) bool        { r.paused++; return true }
func (r *rester) Backoff(tries int) time.Duration { return time.Duration(tries) }

// A script is a candidate whose methods return what the test says, one after the other.
type script struct {
	campaigns, works, resigns []error
	panics                    bool
	done                      []string
}

func (s *script) next(what string, from *[]error) (err error) {
	s.done = append(s.done, what)
	if len(*from) > 0 {
		err, *from = (*from)[0], (*from)[1:]
	}
	return err
}

func (s *script) Campaign() error { return s.next("campaign", &s.campaigns) }
func (s *script) Resign() error   { return s.next("resign", &s.resigns) }

func (s *script) Lead() error {
	if s.panics {
		panic("a bug")
	}
	return s.next("lead", &s.works)
}

func TestElection_Lead(t *testing.T) {
	t.Parallel()
	work, silence, away := errors.New("work"), errors.New("no answer"), fmt.Errorf("a campaign: %w", failure.ErrUnavailable)
	for name, c := range map[string]struct {
		script  script
		returns error
		done    string
		pauses  int
	}{
		"work that ends":          {script{}, nil, "campaign lead resign", 0},
		"work that fails":         {script{works: []error{work}}, work, "campaign lead resign", 0},
		"work that resigns":       {script{works: []error{work}, resigns: []error{failure.ErrReleased}}, work, "campaign lead resign", 0},
		"a failure to resign":     {script{resigns: []error{silence}}, silence, "campaign lead resign", 0},
		"a loss":                  {script{works: []error{context.Canceled}, resigns: []error{failure.ErrLost}}, nil, "campaign lead resign campaign lead resign", 0},
		"an outage":               {script{campaigns: []error{away, away}}, nil, "campaign campaign campaign lead resign", 2},
		"a loss while it begins":  {script{campaigns: []error{failure.ErrLost}}, nil, "campaign campaign lead resign", 1},
		"an error that stays":     {script{campaigns: []error{away, failure.ErrWrongType}}, failure.ErrWrongType, "campaign campaign", 1},
		"a wait that is over":     {script{campaigns: []error{failure.ErrNotAcquired}}, failure.ErrNotAcquired, "campaign", 0},
		"a client that is closed": {script{campaigns: []error{failure.ErrClosed}}, failure.ErrClosed, "campaign", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := new(rester)
			err := New(Client{Host: host, Logger: slog.New(slog.DiscardHandler)}, "office").Lead(t.Context(), &c.script)
			require.ErrorIs(t, err, c.returns)
			require.Equal(t, c.done, strings.Join(c.script.done, " "))
			require.Equal(t, c.pauses, host.paused)
		})
	}
}

// TestElection_LeadPanics shows that a leader resigns if its work panics, and that a candidate whose context has ended does not campaign again.
func TestElection_LeadPanics(t *testing.T) {
	t.Parallel()
	e := New(Client{Host: new(rester), Logger: slog.New(slog.DiscardHandler)}, "office")
	bug := script{panics: true}
	require.PanicsWithValue(t, "a bug", func() { _ = e.Lead(t.Context(), &bug) })
	require.Equal(t, []string{"campaign", "resign"}, bug.done)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := script{resigns: []error{failure.ErrLost}}
	require.ErrorIs(t, e.Lead(ctx, &late), failure.ErrLost)
	require.Equal(t, []string{"campaign", "lead", "resign"}, late.done)
}

func TestStays(t *testing.T) {
	t.Parallel()
	for _, err := range []error{failure.ErrClosed, failure.ErrBadOption} {
		require.True(t, stays(err), err)
	}
	for _, err := range []error{failure.ErrUnavailable, failure.ErrLost, failure.ErrNotAcquired, errors.New("the connection broke")} {
		require.False(t, stays(err), err)
	}
}

// A user is the user of a transport, which does all at once.
type user struct{ transport.User }

func (user) Go(f func())               { f() }
func (user) Detach(f func())           { f() }
func (user) Recheck(func(string) bool) {}
func (user) Changed([]string)          {}

func (user) Resting(string) time.Duration { return 0 }
func (user) Busy() bool                   { return true }

// A held is a lease that does not end.
type held struct {
	Lease

	ctx context.Context
}

func (l held) Context() context.Context { return l.ctx }
func (held) Err() error                 { return nil }
func (held) Token() int64               { return 7 }
func (held) Owner() string              { return "me" }

// newClient returns a client that sends its commands through rc.
func newClient(t *testing.T, rc rueidis.Client) Client {
	c := Client{Host: new(rester), Logger: slog.New(slog.DiscardHandler)}
	c.Wire = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	c.Net = transport.New(transport.Config{Client: rc, UUID: c.Wire.UUID, User: user{}, OpTimeout: 10 * time.Second, Logger: c.Logger})
	t.Cleanup(c.Net.Unlisten)
	return c
}

// TestTerm_WritesItsRecordAgain shows that a leader writes its record again that somebody has deleted, which observers hear: also when the context of
// its campaign has ended.
func TestTerm_WritesItsRecordAgain(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "office")
	server.Do("HSET", key, "me", "1")
	defer server.Do("DEL", key, protocol.LeaderChannel(key))
	c := newClient(t, redistest.NewClient(t, server.Addr()))
	require.Equal(t, confirmEvery, New(c, key).confirmEvery)
	require.LessOrEqual(t, confirmEvery, leaderKeep/3, "the record does not expire while its leader leads")
	e := &Election{c, key, 10 * time.Millisecond}
	heard := make(chan hub.Event, 100)
	listener := c.Net.Listen(protocol.LeaderChannel(key), func(e hub.Event) { heard <- e })
	defer listener.Close()
	require.True(t, (<-heard).Subscribed)

	ctx, ends := context.WithCancel(t.Context())
	lease := &ending{held: held{ctx: ctx}}
	term := &Term{e: e, lease: lease, again: make(chan struct{}, 1), value: "a"}
	require.NoError(t, term.confirm(t.Context()))
	require.Equal(t, "1", (<-heard).Payload)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		term.keep()
	}()
	server.Do("DEL", protocol.LeaderChannel(key))
	require.Equal(t, "1", (<-heard).Payload)
	leader, _, err := e.look(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a", leader.Value)

	ends()
	for range 2 {
		server.Do("DEL", protocol.LeaderChannel(key))
		require.Equal(t, "1", (<-heard).Payload)
	}
	lease.over.Store(true)
	<-kept
	require.Equal(t, "0", (<-heard).Payload, "the record is removed")
}

// An ending is a lease that the test ends.
type ending struct {
	held

	over atomic.Bool
}

func (l *ending) Err() error {
	if l.over.Load() {
		return failure.ErrReleased
	}
	return nil
}

// TestTerm_AfterAFailover shows that a value which the client of a cluster has sent twice, since the connection to the first master broke, does
// not replace a later one: the first of these requests may come after it.
func TestTerm_AfterAFailover(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "office")
	rc := &transporttest.Moving{Client: redistest.NewClient(t, server.Addr())}
	c := newClient(t, rc)
	server.Do("HSET", key, "me", "1")
	e := New(c, key)
	term := &Term{e: e, lease: held{ctx: t.Context()}, again: make(chan struct{}, 1)}
	require.NoError(t, term.Proclaim(t.Context(), "a")) // loads the script, and learns who has the slots

	var first []string
	elects := redistest.EvalSHA(scripts.Elect.SHA1())
	rc.Breaks = func(cmd []string) bool {
		if elects(cmd) {
			first = slices.Clone(cmd)
		}
		return elects(cmd)
	}
	require.NoError(t, term.Proclaim(t.Context(), "b"))
	require.EqualValues(t, 1, c.Net.Resent())
	require.NoError(t, term.Proclaim(t.Context(), "c"))
	done, err := server.Do(first...).AsInt64()
	require.NoError(t, err)
	require.Zero(t, done, "it comes too late")
	leader, _, err := e.look(t.Context())
	require.NoError(t, err)
	require.Equal(t, "c", leader.Value)
	server.Do("DEL", key, protocol.LeaderChannel(key))
}

// A reply does not hide a later start that another run in the process has learned meanwhile.
func TestLearned(t *testing.T) {
	t.Parallel()
	at := func(n int64) time.Time { return time.UnixMilli(n) }
	for _, x := range []struct{ sent, present, reply, want time.Time }{
		{want: time.Time{}},
		{reply: at(1), want: at(1)},
		{present: at(1), want: at(1)},
		{sent: at(1), present: at(2), reply: at(1), want: at(2)},
		{sent: at(1), present: at(2), reply: at(3), want: at(3)},
		{sent: at(2), present: at(2), reply: at(1), want: at(1)}, // the clock of the server was set back
		{sent: at(2), present: at(1), reply: at(2), want: at(2)},
	} {
		require.Equal(t, x.want, learned(x.sent, x.present, x.reply), "%+v", x)
	}
}
