package lockrt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// nobodys is the owner of a lock that no program has.
const nobodys = "11111111-1111-8111-8111-111111111111:1"

// ownersOf returns the owners that clients say they are of a key.
func ownersOf(key string, clients ...*lockrt.Client) (owners []string) {
	for _, c := range clients {
		for _, h := range c.Snapshot().Held {
			if h.Key == key {
				owners = append(owners, h.Owner)
			}
		}
	}
	return owners
}

// TestClient_ForceUnlock takes locks of every kind from the owners that a Snapshot names: not from others, and once.
func TestClient_ForceUnlock(t *testing.T) {
	t.Parallel()
	lease := func(l *lockrt.Lease, err error) (context.Context, error) { return l.Context(), err }
	kinds := map[string]struct {
		take   func(c *lockrt.Client, key string) (context.Context, error)
		shared bool // several have it
		other  string
	}{
		"mutex": {func(c *lockrt.Client, key string) (context.Context, error) {
			return lease(c.Mutex(key).Lock(patient(t)))
		}, false, nobodys},
		"fair": {func(c *lockrt.Client, key string) (context.Context, error) {
			return lease(c.FairMutex(key).Lock(patient(t)))
		}, false, nobodys},
		"write": {func(c *lockrt.Client, key string) (context.Context, error) {
			return lease(c.RWMutex(key).Lock(patient(t)))
		}, false, nobodys},
		"read": {func(c *lockrt.Client, key string) (context.Context, error) {
			return lease(c.RWMutex(key).RLock(patient(t)))
		}, true, nobodys},
		"write and read": {func(c *lockrt.Client, key string) (context.Context, error) {
			held, err := c.RWMutex(key).Lock(patient(t))
			if err != nil {
				return nil, err
			}
			return lease(c.RWMutex(key).RLock(held.Context()))
		}, false, nobodys},
		"permit": {func(c *lockrt.Client, key string) (context.Context, error) {
			p, err := c.PermitSemaphore(key, 3).Acquire(patient(t))
			return p.Context(), err
		}, true, "00112233445566778899aabbccddeeff"},
	}
	for kind, test := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			operator := newClient(t, lockrt.Options{})
			force := func(owners ...string) bool {
				t.Helper()
				taken, err := operator.ForceUnlock(patient(t), key, owners...)
				require.NoError(t, err)
				return taken
			}
			require.False(t, force(test.other), "nobody has it")
			var opts lockrt.Options
			if kind == "permit" {
				opts.Watchdog = 12 * time.Second // its holder notices the loss at the renewal, after a third of that
			}
			clients := []*lockrt.Client{newClient(t, opts)}
			if test.shared {
				clients = append(clients, newClient(t, opts))
			}
			var held []context.Context
			for _, c := range clients {
				ctx, err := test.take(c, key)
				require.NoError(t, err)
				held = append(held, ctx)
			}
			owners := ownersOf(key, clients...)
			require.NotEmpty(t, owners)
			require.False(t, force(test.other), "others have it")
			require.False(t, force(append([]string{test.other}, owners...)...), "one of them has it no more")
			if kind == "read" {
				require.False(t, force(owners[0]), "others read, too")
			}
			for _, ctx := range held {
				require.NoError(t, ctx.Err())
			}
			require.True(t, force(owners...))
			for _, ctx := range held {
				receive(t, ctx.Done(), "the loss")
				require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
			}
			require.False(t, force(owners...), "it is taken already")

			next, err := test.take(clients[0], key)
			require.NoError(t, err)
			require.False(t, force(owners...), "it is another one's")
			require.NoError(t, next.Err())
			taken, err := clients[0].ForceUnlock(patient(t), key, ownersOf(key, clients[0])...)
			require.NoError(t, err)
			require.True(t, taken)
			require.ErrorIs(t, context.Cause(next), lockrt.ErrLost, "a holder of the same Client has lost it at once")
		})
	}
}

// TestClient_ForceUnlock_HandsOver takes a key, and a Java program's, for which somebody waits: the next one has it at once.
func TestClient_ForceUnlock_HandsOver(t *testing.T) {
	t.Parallel()
	for kind, lock := range exclusives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			hooks, waiting, _ := watch()
			holder, next := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{Hooks: hooks})
			lease := ok(t)(lock(holder, key).Lock(patient(t)))
			got := lockLater(patient(t), lock(next, key))
			receive(t, waiting, "the waiter")
			owners := ownersOf(key, holder)
			taken, err := next.ForceUnlock(patient(t), key, owners...)
			require.NoError(t, err)
			require.True(t, taken)
			free(t, gotten(t, got, "the lock"))
			receive(t, lease.Context().Done(), "the loss") // of a release that is answered late, it would not be known
			require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
		})
	}
	t.Run("Java", func(t *testing.T) {
		t.Parallel()
		key, owner := redistest.Key(t, "k"), "11111111-1111-4111-9111-111111111111:42"
		server := redistest.Shared(t)
		server.Do("HSET", key, owner, "2")
		c := newClient(t, lockrt.Options{})
		standing, err := c.Mutex(key).Inspect(patient(t))
		require.NoError(t, err)
		taken, err := c.ForceUnlock(patient(t), key, standing.Owner)
		require.NoError(t, err)
		require.True(t, taken)
		free(t, ok(t)(c.Mutex(key).TryLock(patient(t))))
	})
}

// TestClient_ForceUnlock_AtOnce has several take a key from its owner: one of them does.
func TestClient_ForceUnlock_AtOnce(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	holder := newClient(t, lockrt.Options{})
	lease := ok(t)(holder.Mutex(key).Lock(patient(t)))
	owners := ownersOf(key, holder)
	operators := []*lockrt.Client{holder, newClient(t, lockrt.Options{})}
	taken := make(chan bool, 8)
	for i := range cap(taken) {
		go func() {
			had, err := operators[i%2].ForceUnlock(patient(t), key, owners...)
			taken <- had && err == nil
		}()
	}
	n := 0
	for range cap(taken) {
		if receive(t, taken, "an answer") {
			n++
		}
	}
	require.Equal(t, 1, n)
	receive(t, lease.Context().Done(), "the loss")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
}

// TestClient_ForceUnlock_AllOwners takes a read-write lock only from all of its owners.
func TestClient_ForceUnlock_AllOwners(t *testing.T) {
	t.Parallel()
	c, operator, key := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{}), redistest.Key(t, "k")
	force := func(owners ...string) bool {
		t.Helper()
		taken, err := operator.ForceUnlock(patient(t), key, owners...)
		require.NoError(t, err)
		return taken
	}
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	writer := ok(t)(c.RWMutex(key).Lock(ctx))
	reader := ok(t)(c.RWMutex(key).RLock(ctx))
	standing, err := operator.RWMutex(key).Inspect(patient(t))
	require.NoError(t, err)
	require.Len(t, standing.Readers, 1)
	require.False(t, force(standing.Writer))
	require.False(t, force(standing.Readers...))
	require.NoError(t, errors.Join(writer.Err(), reader.Err()))
	require.True(t, force(standing.Writer, standing.Readers[0]))
	receive(t, writer.Context().Done(), "the loss of the writer")
	receive(t, reader.Context().Done(), "the loss of the reader")
}

// TestClient_ForceUnlock_Refused calls what cannot be done.
func TestClient_ForceUnlock_Refused(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key, text := redistest.Key(t, "k"), redistest.Key(t, "text")
	redistest.Shared(t).Do("SET", text, "1")
	for name, test := range map[string]struct {
		c      *lockrt.Client
		key    string
		owners []string
		want   error
	}{
		"nil":            {nil, key, []string{nobodys}, lockrt.ErrBadOption},
		"zero value":     {&lockrt.Client{}, key, []string{nobodys}, lockrt.ErrBadOption},
		"no owner":       {c, key, nil, lockrt.ErrBadOption},
		"no permit":      {c, key, []string{"x"}, lockrt.ErrBadOption},
		"something else": {c, text, []string{nobodys}, lockrt.ErrWrongType},
	} {
		taken, err := test.c.ForceUnlock(patient(t), test.key, test.owners...)
		require.ErrorIs(t, err, test.want, name)
		require.False(t, taken, name)
	}
	_, err := c.ForceUnlock(patient(t), "", nobodys)
	require.ErrorAs(t, err, new(*lockrt.KeyError))
	for name, owner := range map[string]string{"a lock": nobodys, "a permit": "00112233445566778899aabbccddeeff"} {
		closed, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{})
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		_, err = closed.ForceUnlock(patient(t), key, owner)
		require.ErrorIs(t, err, lockrt.ErrClosed, name)
	}
}

// TestClient_ForceUnlock_Unknown loses the reply, and then the server: the call fails, since nobody knows whether the key was taken, and one
// after it takes it from nobody else.
func TestClient_ForceUnlock_Unknown(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{OpTimeout: 2 * time.Second})
	holder := newClient(t, lockrt.Options{})
	lease := ok(t)(holder.Mutex(l.key).Lock(patient(t)))
	owners := ownersOf(l.key, holder)
	drop := l.proxy.DropReply(redistest.EvalSHA(scripts.ForceUnlock.SHA1()), 0, redistest.Close)
	var taken bool
	var err error
	until(t, "a reply is lost", func() bool { // a busy machine may have no time for the request
		taken, err = l.client.ForceUnlock(patient(t), l.key, owners...)
		require.Error(t, err)
		require.False(t, taken)
		return drop.Lost() > 0
	})
	drop.Stop()
	receive(t, lease.Context().Done(), "the loss")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)

	again := ok(t)(holder.Mutex(l.key).Lock(patient(t)))
	until(t, "the server is heard again", func() bool {
		taken, err = l.client.ForceUnlock(patient(t), l.key, owners...)
		return err == nil
	})
	require.False(t, taken)
	require.NoError(t, again.Err())

	l.proxy.Refuse(true)
	l.proxy.Cut()
	taken, err = l.client.ForceUnlock(patient(t), l.key, ownersOf(l.key, holder)...)
	require.False(t, taken)
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	var whole *lockrt.Error
	require.True(t, errors.As(err, &whole))
	require.Equal(t, "force unlock", whole.Op)
	require.Equal(t, l.key, whole.Key)
	require.NoError(t, again.Err())
	free(t, again)
}
