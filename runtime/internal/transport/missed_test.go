package transport

import (
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A key that is renewed over another connection, since the tracked one is late with an answer, is read over the tracked one as soon as
// that answers: the server reports changes of the keys that were read over it, and of no others.
func TestRenew_WhatAnotherConnectionReadIsReadAgain(t *testing.T) {
	t.Parallel()
	const patience = time.Millisecond
	for name, inTime := range map[string]bool{"the answer comes after the renewal": false, "the answer comes during the renewal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net, p, u := start(t, nil, Config{Tracking: true})
			renew := func(key string, patience time.Duration) {
				require.ErrorIs(t, net.Renew(protocol.RenewLock, p.Renewals(protocol.RenewLock), []Renewal{{key, p.Owner(1), time.Minute}}, patience)[0].Err, ErrRefused)
			}
			net.Listen(t.Name(), func(hub.Event) {})
			require.False(t, net.TracksChanges())
			renew("first", 10*time.Second)
			require.Nil(t, <-u.rechecks, "the server reports changes from now on")
			w := net.tracker.adopted
			w.behind.Store(true) // no replacement while the test goes on
			if inTime {
				w.fallBehind([]string{"missed"}, 10*time.Second)
			} else {
				answered := w.pending.note()
				require.Eventually(t, func() bool { return w.pending.late(patience) }, time.Minute, time.Millisecond)
				renew("missed", patience)
				require.Empty(t, u.rechecks)
				answered()
				renew("other", 10*time.Second)
			}
			require.NotEmpty(t, u.rechecks)
			some := <-u.rechecks
			require.True(t, some("missed"))
			require.False(t, some("other"))
			renew("missed", 10*time.Second)
			require.Empty(t, u.rechecks, "once")
		})
	}
}

// The subscribed connection is replaced if it is late with an answer, and the server answers over another one: a client that holds nothing
// renews nothing over it, and would miss its messages for longer.
func TestRunBeside_ReplacesASubscriberThatIsMute(t *testing.T) {
	t.Parallel()
	net, p, u := start(t, nil, Config{Tracking: true})
	heard := make(chan hub.Event, 100)
	net.Listen(t.Name(), func(e hub.Event) { heard <- e })
	require.Equal(t, hub.Event{Subscribed: true}, <-heard)
	require.False(t, net.TracksChanges())
	require.Nil(t, <-u.rechecks, "the server reports changes from now on")
	w := net.tracker.adopted
	defer w.pending.note()() // its answer does not come
	require.Eventually(t, func() bool { return w.pending.late(net.Patience()) }, time.Minute, time.Millisecond)
	require.Empty(t, heard)
	require.NoError(t, net.RunBeside(p.Leader("k")).Err())
	select {
	case e := <-heard:
		require.Equal(t, hub.Event{Subscribed: true, Again: true}, e)
	case <-time.After(time.Minute):
		t.Error("it is not replaced")
	}
}

// The same, if no other request goes over the subscribed connection, or past it.
func TestRenew_ReplacesASubscriberThatIsMute(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second, Tracking: true, Logger: slog.New(slog.DiscardHandler)})
	heard := make(chan hub.Event, 100)
	net.Listen(t.Name(), func(e hub.Event) { heard <- e })
	require.Equal(t, hub.Event{Subscribed: true}, <-heard)
	require.False(t, net.TracksChanges())
	require.Nil(t, <-u.rechecks, "the server reports changes from now on")
	require.NoError(t, net.Run(process.Leader("k")).Err()) // loads the scripts

	lost := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
	net.spoke.Store(int64(monotonic.Now().Add(time.Hour))) // to others, all the time
	var renewal sync.WaitGroup
	renewal.Go(func() {
		net.Renew(protocol.RenewLock, process.Renewals(protocol.RenewLock), []Renewal{{"k", process.Owner(1), time.Minute}}, time.Minute)
	})
	<-lost.Done()
	select {
	case e := <-heard:
		require.Equal(t, hub.Event{Subscribed: true, Again: true}, e)
	case <-time.After(time.Minute):
		t.Error("it is not replaced")
	}
	proxy.Cut()
	renewal.Wait()
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// A looking user notes when leases are confirmed for the first time.
type looking struct {
	fake

	first []time.Duration
}

func (u *looking) LookFirst(after time.Duration) { u.first = append(u.first, after) }

// tracking returns a tracker with a connection on which the server reports changes, and its user.
func tracking() (*tracker, *tracked, *looking) {
	u := &looking{}
	l := &link{rc: &named{}, cfg: Config{User: u, Logger: slog.New(slog.DiscardHandler), Stopped: make(chan struct{})}}
	tr := &tracker{link: l, hub: hub.New(hub.Config{}), stage: trackingOn}
	tr.adopted = &tracked{tracker: tr, stage: trackedReporting, gone: make(chan struct{})}
	return tr, tr.adopted, u
}

// A connection that the hub has replaced does no harm to the next one, however late it is found to be mute, or is closed.
func TestTracker_TheConnectionBefore(t *testing.T) {
	t.Parallel()
	tr, before, u := tracking()
	next := &tracked{tracker: tr, stage: trackedReporting, gone: make(chan struct{})}
	tr.adopted = next
	tr.mu.Lock()
	before.replace(errBehind)
	tr.mu.Unlock()
	require.Equal(t, trackedReporting, before.stage)
	require.False(t, tr.silent)
	before.leave()
	before.leave()
	require.Same(t, next, tr.adopted)
	require.Empty(t, u.first)
	conn := &closable{}
	subscriber{conn: conn, tracked: next}.Close()
	require.EqualValues(t, 1, conn.closed.Load())
	require.Nil(t, tr.adopted)
	<-next.gone
	require.Equal(t, []time.Duration{0}, u.first, "no server reports changes")
}

// A connection that is broken gets no more requests, and one that the server refuses something does.
func TestTracker_Settle(t *testing.T) {
	t.Parallel()
	tr, w, _ := tracking()
	w.settle(nil)
	rc := redistest.NewClient(t, redistest.Shared(t).Addr())
	w.settle(rc.Do(t.Context(), rc.B().Arbitrary("NO-SUCH-COMMAND").Build()).Error())
	require.True(t, tr.tells())
	w.settle(io.EOF)
	require.False(t, tr.tells())
}

// A connection gets no more requests when the client has another server.
func TestTracker_OtherServers(t *testing.T) {
	t.Parallel()
	tr, w, _ := tracking()
	require.True(t, tr.tells())
	w.servers = "before"
	require.False(t, tr.tells())
	require.Equal(t, trackedOver, w.stage)
}

// Nothing is asked of a server when the client is closed.
func TestTracker_BeginsNoMore(t *testing.T) {
	t.Parallel()
	tr, w, _ := tracking()
	w.stage = trackedIdle
	tr.close()
	require.Nil(t, tr.begin())
	require.Equal(t, trackedIdle, w.stage)
}

// A connection that is late is replaced if it does not answer soon, also if it was late before and has answered.
func TestTracker_FallsBehindAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr, w, _ := tracking()
		late := func() (answered func()) {
			answered = w.pending.note()
			<-time.After(leastPatience + time.Millisecond)
			w.fallBehind(nil, leastPatience)
			w.fallBehind(nil, leastPatience)
			return answered
		}
		grace := func() {
			<-time.After(graceBehind)
			synctest.Wait()
		}
		answered := late()
		answered()
		grace()
		require.True(t, tr.tells())
		answered = late()
		grace()
		require.False(t, tr.tells())
		answered()
		tr.close()
	})
}
