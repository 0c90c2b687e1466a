package lockrt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// An observed is what an observer was told.
type observed struct {
	lockrt.Leader

	err error
}

// observe returns what an observer is told, until the test ends.
func observe(t *testing.T, e *lockrt.Election) <-chan observed {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, done := make(chan observed, 1000), make(chan struct{})
	go func() {
		defer close(done)
		for leader, err := range e.Observe(ctx) {
			told <- observed{leader, err}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return told
}

// leads waits until the observer is told that a leader of this value leads, or that nobody does, and returns its token.
func leads(t *testing.T, told <-chan observed, value string) int64 {
	t.Helper()
	got := receive(t, told, "the leader "+value)
	require.NoError(t, got.err)
	require.Equal(t, value, got.Value)
	require.Equal(t, value == "", got.Token == 0)
	require.Equal(t, value == "", got.Client == "")
	return got.Token
}

// A term is what came of a campaign.
type term struct {
	*lockrt.Leadership

	err error
}

// candidate campaigns in another goroutine, and returns once it waits.
func candidate(t *testing.T, ctx context.Context, c *lockrt.Client, waiting <-chan string, name, value string) <-chan term { //nolint:revive // the test comes first
	t.Helper()
	got := make(chan term, 1)
	go func() {
		l, err := c.Election(name).Campaign(ctx, value)
		got <- term{l, err}
	}()
	receive(t, waiting, "the candidate "+value)
	return got
}

func TestElection(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"standalone": func(t *testing.T) string { return redistest.Shared(t).URL() },
		"cluster":    func(t *testing.T) string { return redistest.SharedCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			one := clientOf(t, url(t), lockrt.Options{})
			two := clientOf(t, url(t), lockrt.Options{Hooks: hooks})
			three := clientOf(t, url(t), lockrt.Options{})
			office := redistest.Key(t, "office")
			told := observe(t, three.Election(office))
			leads(t, told, "")

			first, err := one.Election(office).Campaign(t.Context(), "a 1")
			require.NoError(t, err)
			require.NoError(t, first.Err())
			require.Positive(t, time.Until(first.Until()))
			require.Equal(t, first.Token(), leads(t, told, "a 1"))
			leader, err := three.Election(office).Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, lockrt.Leader{Value: "a 1", Token: first.Token(), Client: one.ID()}, leader)

			require.NoError(t, first.Proclaim(t.Context(), "a 2"))
			require.Equal(t, first.Token(), leads(t, told, "a 2"))
			require.NoError(t, first.Proclaim(t.Context(), "a 2"), "which changes nothing")

			next := candidate(t, t.Context(), two, waiting, office, "b")
			require.NoError(t, first.Resign(t.Context()))
			second := receive(t, next, "the next leader") // long before the watchdog of 30s
			require.NoError(t, second.err)
			require.Greater(t, second.Token(), first.Token())
			require.ErrorIs(t, first.Context().Err(), context.Canceled)
			require.ErrorIs(t, first.Err(), lockrt.ErrReleased)
			require.ErrorIs(t, first.Proclaim(t.Context(), "a 3"), lockrt.ErrReleased)
			require.ErrorIs(t, first.Resign(t.Context()), lockrt.ErrReleased)
			got := receive(t, told, "the next leader")
			if got.Token == 0 { // in between nobody led, for a moment
				got = receive(t, told, "the next leader")
			}
			require.Equal(t, observed{lockrt.Leader{Value: "b", Token: second.Token(), Client: two.ID()}, nil}, got)

			require.NoError(t, second.Resign(t.Context()))
			leads(t, told, "")
			if name == "standalone" {
				gone(t, redistest.Shared(t), "lockgen_leader:{"+office+"}")
			}
			require.Empty(t, told)
		})
	}
}

// Two candidates of one process are two candidates, whether or not they have one owner.
func TestElection_TwoCandidatesOfOneProcess(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	office := redistest.Key(t, "office")
	told := observe(t, newClient(t, lockrt.Options{}).Election(office))
	leads(t, told, "")
	owned := lockrt.WithOwner(t.Context(), lockrt.NewOwner())
	first, err := c.Election(office).Campaign(owned, "a")
	require.NoError(t, err)
	token := leads(t, told, "a")
	owner, ok := lockrt.OwnerFrom(first.Context())
	require.True(t, ok, "what the leader locks is its owner's")
	require.NotNil(t, owner)
	_, err = c.Election(office).Campaign(first.Context(), "b")
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	next := candidate(t, owned, c, waiting, office, "b")
	require.NoError(t, first.Resign(t.Context()))
	second := receive(t, next, "the next leader")
	require.NoError(t, second.err)
	require.Greater(t, second.Token(), token)
	until(t, "the observer sees it", func() bool { return (<-told).Value == "b" })
	require.NoError(t, second.Resign(t.Context()))
	leads(t, told, "")
}

// A leader that is cut off is told before another one leads, and observers see the change.
func TestElection_LeaderIsCutOff(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	hooks, waiting, _ := watch()
	away, err := opened(t.Context(), proxy.URL(), lockrt.Options{})
	require.NoError(t, err)
	defer away.Close()
	other := newClient(t, lockrt.Options{Hooks: hooks})
	office := redistest.Key(t, "office")
	told := observe(t, newClient(t, lockrt.Options{}).Election(office))
	leads(t, told, "")
	first, err := away.Election(office, lockrt.WithWatchdog(6*time.Second)).Campaign(t.Context(), "a")
	require.NoError(t, err)
	leads(t, told, "a")
	next := candidate(t, t.Context(), other, waiting, office, "b")
	proxy.Blackhole(redistest.Both)
	second := receive(t, next, "the next leader")
	require.NoError(t, second.err)
	require.ErrorIs(t, first.Err(), lockrt.ErrLost)
	require.ErrorIs(t, context.Cause(first.Context()), lockrt.ErrLost)
	require.Greater(t, second.Token(), first.Token())
	until(t, "the observer sees it", func() bool { return (<-told).Value == "b" })

	proxy.Deliver() // whatever the first one still says, it is not the leader
	require.ErrorIs(t, first.Resign(t.Context()), lockrt.ErrLost)
	leader, err := other.Election(office).Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "b", leader.Value)
	require.NoError(t, second.Resign(t.Context()))
}

// Observers say that Redis is away, once, and who leads as soon as it is back.
func TestElection_ObserverWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, mute := range map[string]bool{"refused": false, "mute": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, server.Addr())
			c, err := opened(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: 3 * time.Second})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			office := redistest.Key(t, "office")
			leader := newClient(t, lockrt.Options{})
			l, err := leader.Election(office).Campaign(t.Context(), "a")
			require.NoError(t, err)
			told := observe(t, c.Election(office))
			token := leads(t, told, "a")
			if mute {
				proxy.Blackhole(redistest.Both)
			} else {
				proxy.Refuse(true)
			}
			proxy.Cut()
			require.NoError(t, l.Proclaim(t.Context(), "b"))
			got := receive(t, told, "that Redis is away")
			for got.err == nil { // the change was seen over a connection that was still there
				got = receive(t, told, "that Redis is away")
			}
			require.ErrorIs(t, got.err, lockrt.ErrUnavailable)
			require.Equal(t, token, got.Token)
			_, err = c.Election(office).Leader(t.Context())
			require.ErrorIs(t, err, lockrt.ErrUnavailable)
			proxy.Refuse(false)
			proxy.Deliver()
			require.Equal(t, token, leads(t, told, "b"))
			require.NoError(t, l.Resign(t.Context()))
			leads(t, told, "")
		})
	}
}

// An observer that the server does not let subscribe, or not again, asks.
func TestElection_ObserverWithoutASubscription(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]bool{"never": false, "no more": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			const channel = "lockgen_leader:{office}"
			subscribes := func(cmd []string) bool {
				return strings.EqualFold(cmd[0], "SUBSCRIBE") && slices.Contains(cmd, channel)
			}
			if !heard {
				proxy.DropRequest(subscribes, 0, redistest.Close)
			}
			const office = "office"
			l, err := clientOf(t, server.URL(), lockrt.Options{}).Election(office, lockrt.WithWatchdog(time.Hour)).Campaign(patient(t), "a")
			require.NoError(t, err)
			told := observe(t, clientOf(t, proxy.URL(), lockrt.Options{}).Election(office))
			leads(t, told, "a")
			if heard {
				until(t, "the observer listens", func() bool { return subscribers(t, server, channel) == 1 })
				proxy.DropRequest(subscribes, 0, redistest.Close)
				server.Do("CLIENT", "KILL", "TYPE", "pubsub")
				until(t, "the observer listens no more", func() bool { return subscribers(t, server, channel) == 0 })
			}
			require.NoError(t, l.Proclaim(patient(t), "b"))
			leads(t, told, "b")
			require.NoError(t, l.Resign(patient(t)))
			leads(t, told, "")
		})
	}
}

// TestElection_LostReplies has the server act on what is said of a leadership, and loses its replies.
func TestElection_LostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, mode := range map[string]redistest.Mode{"closed": redistest.Close, "mute": redistest.Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, server.Addr())
			c, err := opened(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: 3 * time.Second})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			office := redistest.Key(t, "office")
			told := observe(t, newClient(t, lockrt.Options{}).Election(office))
			leads(t, told, "")
			lost := proxy.DropReply(redistest.EvalSHA(scripts.Elect.SHA1()), 1, mode)
			l, err := c.Election(office).Campaign(patient(t), "a")
			require.NoError(t, err)
			receive(t, lost.Done(), "the reply to be lost")
			leads(t, told, "a")
			lost = proxy.DropRequest(redistest.EvalSHA(scripts.Elect.SHA1()), 1, mode)
			if err := l.Proclaim(patient(t), "b"); err != nil {
				require.NotErrorIs(t, err, lockrt.ErrLost)
			}
			receive(t, lost.Done(), "the request to be lost")
			leads(t, told, "b") // the client has gone on trying
			until(t, "it is given back", func() bool { err := l.Resign(patient(t)); return err == nil || errors.Is(err, lockrt.ErrReleased) })
			leads(t, told, "")
		})
	}
}

// A value that had no answer, and that the server gets when the leader has proclaimed a newer one, is not proclaimed any more.
func TestElection_LateProclaim(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, again := range map[string]string{"the newer one": "c", "the one before, again": "a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, server.Addr())
			c := clientOf(t, proxy.URL(), lockrt.Options{})
			office := redistest.Key(t, "office")
			told := observe(t, newClient(t, lockrt.Options{}).Election(office))
			leads(t, told, "")
			l, err := c.Election(office).Campaign(patient(t), "a")
			require.NoError(t, err)
			leads(t, told, "a")

			proclaims, elect := make(chan []string, 10), redistest.EvalSHA(scripts.Elect.SHA1())
			proxy.OnRequest(func(cmd []string) {
				if elect(cmd) {
					proclaims <- cmd
				}
			})
			lost := proxy.DropRequest(elect, 1, redistest.Close)
			require.NotErrorIs(t, l.Proclaim(patient(t), "b"), lockrt.ErrLost)
			receive(t, lost.Done(), "the request to be lost")
			late := receive(t, proclaims, "the request")
			leads(t, told, "b") // the client has gone on trying
			require.NoError(t, l.Proclaim(patient(t), again))
			token := leads(t, told, again)

			done, err := server.Do(late...).AsInt64()
			require.NoError(t, err)
			require.Zero(t, done, "it comes too late")
			leader, err := c.Election(office).Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, lockrt.Leader{Value: again, Token: token, Client: c.ID()}, leader)
			require.NoError(t, l.Resign(patient(t)))
			leads(t, told, "")
		})
	}
}

// A campaign that ends before it is won leaves nothing behind.
func TestElection_CampaignThatEnds(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	other := newClient(t, lockrt.Options{})
	office := redistest.Key(t, "office")
	l, err := other.Election(office).Campaign(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	got := candidate(t, ctx, c, waiting, office, "b")
	cancel()
	require.ErrorIs(t, receive(t, got, "the candidate").err, context.Canceled)
	_, err = c.Election(office, lockrt.WithWait(0)).Campaign(t.Context(), "b")
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.EqualError(t, err, `lockgen: campaign "`+office+`": not acquired`)
	require.NoError(t, l.Resign(t.Context()))
	until(t, "nobody leads", func() bool {
		leader, err := c.Election(office).Leader(t.Context())
		return err == nil && leader == lockrt.Leader{}
	})
	gone(t, redistest.Shared(t), office)
}

// A campaign that has the lock, and ends before the server has said that its record is written, leaves neither behind.
func TestElection_CampaignThatEndsBeforeItsRecord(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	office := redistest.Key(t, "office")
	ctx, cancel := context.WithCancel(context.Background())
	elect := redistest.EvalSHA(scripts.Elect.SHA1())
	proxy.OnRequest(func(cmd []string) {
		if elect(cmd) {
			cancel()
		}
	})
	lost := proxy.DropReply(elect, 1, redistest.Close)
	_, err := c.Election(office).Campaign(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	receive(t, lost.Done(), "the reply to be lost")
	gone(t, server, office, "lockgen_leader:{"+office+"}")
}

// A leadership outlives the context of its campaign until it is released, as a lease does, and its record until then.
func TestElection_OutlivesItsContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	office := redistest.Key(t, "office")
	ctx, cancel := context.WithCancel(context.Background())
	l, err := c.Election(office).Campaign(ctx, "a")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, l.Context().Err(), context.Canceled)
	require.NoError(t, l.Err())
	require.NoError(t, l.Proclaim(t.Context(), "going"))
	leader, err := c.Election(office).Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "going", leader.Value)
	require.NoError(t, l.Resign(ctx))
	gone(t, redistest.Shared(t), "lockgen_leader:{"+office+"}")
}

func TestElection_Lead(t *testing.T) {
	t.Parallel()
	log := &lines{}
	c := newClient(t, lockrt.Options{Logger: log.logger()})
	other := newClient(t, lockrt.Options{})
	office := redistest.Key(t, "office")
	e := c.Election(office)
	errDone := errors.New("done")
	ctx, cancel := context.WithCancel(context.Background())
	terms, resign := make(chan *lockrt.Leadership), make(chan error)
	led := later(func() error {
		return e.Lead(ctx, "a", func(ctx context.Context, l *lockrt.Leadership) error {
			terms <- l
			select {
			case <-ctx.Done():
				return ctx.Err()
			case err := <-resign:
				return err
			}
		})
	})
	first := receive(t, terms, "the first term")
	taken, err := other.Mutex(office).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	second := receive(t, terms, "the second term")
	require.ErrorIs(t, first.Err(), lockrt.ErrLost)
	require.Greater(t, second.Token(), first.Token())
	require.Equal(t, 1, log.count("the leadership was lost"))
	resign <- errDone
	require.Equal(t, errDone, receive(t, led, "the end"))
	require.ErrorIs(t, second.Err(), lockrt.ErrReleased)

	led = later(func() error {
		return e.Lead(ctx, "a", func(ctx context.Context, l *lockrt.Leadership) error { terms <- l; <-ctx.Done(); return ctx.Err() })
	})
	third := receive(t, terms, "a term")
	cancel()
	require.ErrorIs(t, receive(t, led, "the end"), context.Canceled)
	require.ErrorIs(t, third.Err(), lockrt.ErrReleased)
	require.ErrorIs(t, e.Lead(ctx, "a", func(context.Context, *lockrt.Leadership) error { return nil }), context.Canceled)

	require.PanicsWithValue(t, "bug", func() {
		_ = e.Lead(t.Context(), "a", func(context.Context, *lockrt.Leadership) error { panic("bug") })
	})
	l, err := other.Election(office).Campaign(patient(t), "b")
	require.NoError(t, err, "a leader that panics resigns")
	require.NoError(t, l.Resign(t.Context()))

	// One that resigned itself does not campaign again.
	require.NoError(t, e.Lead(t.Context(), "a", func(ctx context.Context, l *lockrt.Leadership) error { return l.Resign(ctx) }))
}

// Lead waits out an outage that is longer than a campaign would.
func TestElection_LeadThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Kill()
	log := &lines{}
	c := clientOf(t, server.URL(), lockrt.Options{StartWithoutServer: true, Logger: log.logger(), Retry: lockrt.ConstantBackoff(time.Millisecond).Attempts(2)})
	led := later(func() error {
		return c.Election("office").Lead(patient(t), "a", func(context.Context, *lockrt.Leadership) error { return nil })
	})
	until(t, "campaigns have failed", func() bool { return log.count("a campaign failed") > 2 })
	server.Restart()
	require.NoError(t, receive(t, led, "the end"))
}

func TestElection_WhatCannotBe(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	ctx := t.Context()
	fn := func(context.Context, *lockrt.Leadership) error { return nil }
	for name, e := range map[string]*lockrt.Election{
		"nil": nil, "zero": {}, "no name": c.Election(""), "bad option": c.Election("a", lockrt.WithWatchdog(time.Millisecond)),
		"no client": (*lockrt.Client)(nil).Election("a"),
	} {
		_, err := e.Campaign(ctx, "v")
		require.Error(t, err, name)
		require.Error(t, e.Lead(ctx, "v", fn), name)
		if name == "bad option" {
			continue // which has no say in looking
		}
		_, err = e.Leader(ctx)
		require.Error(t, err, name)
		n := 0
		for leader, err := range e.Observe(ctx) {
			require.Error(t, err, name)
			require.Zero(t, leader)
			n++
		}
		require.Equal(t, 1, n, name)
	}
	e := c.Election(redistest.Key(t, "office"))
	//lint:ignore SA1012 a nil context is what the test is about
	_, err := e.Campaign(nil, "v")
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	//lint:ignore SA1012 a nil context is what the test is about
	_, err = e.Leader(nil)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorIs(t, e.Lead(ctx, "v", nil), lockrt.ErrBadOption)
	_, err = e.Campaign(ctx, strings.Repeat("v", 1<<17))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	for _, l := range []*lockrt.Leadership{nil, {}} {
		require.ErrorIs(t, l.Err(), lockrt.ErrBadOption)
		require.ErrorIs(t, l.Resign(ctx), lockrt.ErrBadOption)
		require.ErrorIs(t, l.Proclaim(ctx, "v"), lockrt.ErrBadOption)
		require.Error(t, l.Context().Err())
		require.Zero(t, l.Token())
		require.Zero(t, l.Until())
	}
	l, err := e.Campaign(ctx, "")
	require.NoError(t, err)
	require.ErrorIs(t, l.Proclaim(ctx, strings.Repeat("v", 1<<17)), lockrt.ErrBadOption)
	require.NoError(t, l.Resign(ctx))

	server := redistest.Shared(t)
	text := redistest.Key(t, "text")
	server.Do("SET", text, "v")
	defer server.Do("DEL", text)
	_, err = c.Election(text).Campaign(ctx, "v")
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	for _, err := range c.Election(text).Observe(ctx) {
		require.NoError(t, err, "a mutex that nobody has said to lead by")
		break
	}
}

// A client that is closed ends the leadership and the observers.
func TestElection_Close(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{})
	require.NoError(t, err)
	office := redistest.Key(t, "office")
	told := observe(t, c.Election(office))
	leads(t, told, "")
	l, err := c.Election(office, lockrt.WithWatchdog(6*time.Second)).Campaign(t.Context(), "a")
	require.NoError(t, err)
	leads(t, told, "a")
	require.NoError(t, c.Close())
	require.ErrorIs(t, l.Err(), lockrt.ErrClosed)
	require.ErrorIs(t, receive(t, told, "that it is closed").err, lockrt.ErrClosed)
	_, err = c.Election(office).Campaign(t.Context(), "a")
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = c.Election(office).Leader(t.Context())
	require.ErrorIs(t, err, lockrt.ErrClosed)
}
