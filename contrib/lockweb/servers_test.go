package lockweb_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// openOn opens a client of a server that no other client has.
func openOn(t testing.TB) *lockrt.Client {
	t.Helper()
	c, err := lockrt.Open(t.Context(), redistest.Server(t).URL(), lockrt.Options{OpTimeout: unhurried, DeadlockAfter: -1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestPage_LocksOfTwoServers shows that a key on two servers is two locks: with their own holders, waiters and kinds.
func TestPage_LocksOfTwoServers(t *testing.T) {
	t.Parallel()
	one, other := openOn(t), openOn(t)
	hold(t, one.Mutex("a"), lockrt.WithName("a of one"))
	hold(t, other.Mutex("b"), lockrt.WithName("b of other"))
	hasB := hold(t, one.Mutex("b"), lockrt.WithName("also b of one"))
	hasA := hold(t, other.RWMutex("a"), lockrt.WithName("also a of other"))
	wait(t, one, hasB.Context(), one.Mutex("a"))
	wait(t, one, t.Context(), one.Mutex("b"), lockrt.WithName("alien"))
	wait(t, other, hasA.Context(), other.Mutex("b"))
	wait(t, other, t.Context(), other.Mutex("b"), lockrt.WithName("other stranger"))
	_, body := get(t, lockweb.Handler(one, other), "")
	require.NotContains(t, body, "<h2>Deadlocks</h2>")
	for _, arrow := range []string{
		"also b of one waits for a, which a of one has",
		"also a of other waits for b, which b of other has",
		"alien waits for b, which also b of one has",
		"other stranger waits for b, which b of other has",
	} {
		require.Contains(t, body, arrow)
	}
	require.NotContains(t, body, "waits for b, which b of one has")
	require.NotContains(t, body, "which also a of other has", "no call waits for it")
	require.Contains(t, body, ">write</td>", "the kind of a on the other server")
}

// TestPage_LockOfAMajority shows that a call for a RedLock waits for its holder on each of the servers.
func TestPage_LockOfAMajority(t *testing.T) {
	t.Parallel()
	clients := []*lockrt.Client{openOn(t), openOn(t), openOn(t)}
	hold(t, clients[1].Mutex("k"), lockrt.WithName("second"))
	hold(t, clients[2].Mutex("k"), lockrt.WithName("third"))
	wait(t, clients[0], t.Context(), lockrt.NewRedLock("k", clients), lockrt.WithName("call"))
	_, body := get(t, lockweb.Handler(clients...), "")
	require.Contains(t, body, "call waits for k, which second has")
	require.Contains(t, body, "call waits for k, which third has")
}

// TestPage_ClientsOfOneServer shows that a key on one server is one lock, whichever client has it.
func TestPage_ClientsOfOneServer(t *testing.T) {
	t.Parallel()
	one, other := open(t, lockrt.Options{}), open(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	hold(t, one.Mutex(key), lockrt.WithName("first"))
	wait(t, other, t.Context(), other.Mutex(key), lockrt.WithName("second"))
	_, body := get(t, lockweb.Handler(&lockrt.Client{}, one, other), "")
	require.Contains(t, body, "second waits for "+key+", which first has")
}

// TestPage_DatabasesOfOneServer shows that a key in two databases of a server is two locks. For a user who may not ask for the database, all
// databases are one.
func TestPage_DatabasesOfOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	opened := func(user string, database int) *lockrt.Client {
		url := fmt.Sprintf("redis://%s@%s/%d", user, server.Addr(), database)
		c, err := lockrt.Open(t.Context(), url, lockrt.Options{OpTimeout: unhurried, DeadlockAfter: -1})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	server.Do("ACL", "SETUSER", "denied", "on", ">p", "~*", "&*", "+@all", "-client|info")
	for _, user := range []string{"default:", "denied:p"} {
		one, same, other := opened(user, 1), opened(user, 1), opened(user, 2)
		first, second := hold(t, one.Mutex(user), lockrt.WithName("first")), hold(t, other.Mutex(user), lockrt.WithName("second"))
		wait(t, same, t.Context(), same.Mutex(user), lockrt.WithName("third"))
		wait(t, other, t.Context(), other.Mutex(user), lockrt.WithName("fourth"))
		closed := opened(user, 3)
		require.NoError(t, closed.Close())
		_, body := get(t, lockweb.Handler(closed, one, same, other), "")
		arrows := []string{"third waits for " + user + ", which first has", "fourth waits for " + user + ", which second has"}
		if user == "denied:p" {
			arrows = []string{"2 calls waits for " + user + ", which first has", "2 calls waits for " + user + ", which second has"}
		}
		for _, arrow := range arrows {
			require.Contains(t, body, arrow)
		}
		require.Equal(t, len(arrows), strings.Count(body, "waits for "+user))
		require.NoError(t, first.Err())
		require.NoError(t, second.Err())
	}
}

// TestPage_AClientTwice shows each hold, each waiter and each loss once.
func TestPage_AClientTwice(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	hold(t, c.Mutex(key))
	wait(t, c, t.Context(), c.Mutex(key))
	_, body := get(t, lockweb.Handler(c, c), "")
	require.Contains(t, body, "<dt>Held</dt><dd>1</dd>")
	require.Contains(t, body, "<dt>Waiting</dt><dd>1</dd>")
	require.Equal(t, 1, strings.Count(body, `<tr id="h`))
}

// crosses has two calls of c wait for each other: the first has a permit of s and waits for m, the second has m and waits for a permit. The channel
// receives the outcome of the second, which cancel ends.
func crosses(t *testing.T, c *lockrt.Client, s *lockrt.PermitSemaphore, m *lockrt.Mutex) (got <-chan error, cancel func()) {
	t.Helper()
	permit, err := s.Acquire(t.Context())
	require.NoError(t, err)
	hasM := hold(t, m)
	wait(t, c, permit.Context(), m)
	before := c.Stats().Waiting
	ctx, cancel := context.WithCancel(hasM.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx)
		done <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting > before && len(c.Snapshot().Waiting) > 1 }, time.Minute, time.Millisecond)
	return done, cancel
}

// TestPage_PermitsOfOtherProcesses shows that a call for a permit is in no deadlock while a process has a permit of which the page does not know.
func TestPage_PermitsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	c, stranger := open(t, lockrt.Options{DeadlockAfter: -1}), open(t, lockrt.Options{DeadlockAfter: -1})
	key := redistest.Key(t, "s")
	permits := func(c *lockrt.Client) *lockrt.PermitSemaphore { return c.PermitSemaphore(key, 2) }
	m := c.Mutex(redistest.Key(t, "m"))
	theirs, err := permits(stranger).Acquire(t.Context())
	require.NoError(t, err)
	got, _ := crosses(t, c, permits(c), m)
	_, body := get(t, lockweb.Handler(c), "")
	require.NotContains(t, body, "<h2>Deadlocks</h2>")
	require.NoError(t, theirs.Release(t.Context()))
	require.NoError(t, <-got)
}

// TestPage_DeadlockOfPermits shows the deadlock of calls that have all permits, with two servers too.
func TestPage_DeadlockOfPermits(t *testing.T) {
	t.Parallel()
	other, c := openOn(t), openOn(t)
	s, m := c.PermitSemaphore("s", 1), c.Mutex("m")
	got, cancel := crosses(t, c, s, m)
	_, body := get(t, lockweb.Handler(other, c), "")
	require.Contains(t, body, "<h2>Deadlocks</h2>")
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
}

// TestForce_OfTwoServers shows that the page takes a lock of each server by the kind that it has there.
func TestForce_OfTwoServers(t *testing.T) {
	t.Parallel()
	one, other := openOn(t), openOn(t)
	reads, err := one.RWMutex("k").RLock(t.Context())
	require.NoError(t, err)
	locks := hold(t, other.Mutex("k"))
	v := &viewer{t: t, page: lockweb.Handler(one, other).With(lockweb.WithForce(func(*http.Request) error { return nil }))}
	_, body := v.do(http.MethodGet, "", "")
	links := linkIn.FindAllStringSubmatch(body, -1)
	require.Len(t, links, 2)
	for _, link := range links {
		_, question := v.do(http.MethodGet, "?part=force&id="+link[1], "")
		token := tokenIn.FindStringSubmatch(question)
		require.Len(t, token, 2, question)
		code, answer := v.do(http.MethodPost, "?part=force", "id="+link[1]+"&token="+token[1])
		require.Equal(t, http.StatusOK, code, answer)
	}
	for _, lease := range []*lockrt.Lease{reads, locks} {
		<-lease.Context().Done()
		require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	}
}

// TestPage_DeadlockBesideAClosedClient shows the deadlock of calls that have all permits although another client of their server is closed.
func TestPage_DeadlockBesideAClosedClient(t *testing.T) {
	t.Parallel()
	closed, c := open(t, lockrt.Options{}), open(t, lockrt.Options{DeadlockAfter: -1})
	require.NoError(t, closed.Close())
	s, m := c.PermitSemaphore(redistest.Key(t, "s"), 1), c.Mutex(redistest.Key(t, "m"))
	got, cancel := crosses(t, c, s, m)
	_, body := get(t, lockweb.Handler(closed, c), "")
	require.Contains(t, body, "<h2>Deadlocks</h2>")
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
}
