package lockrt_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// javaThread is an owner as Redisson names it.
const javaThread = "7b0d3d4c-6f0b-4d21-9c5e-2f1a3b4c5d6e:42"

// A javaLock is a lock as a Java program with Redisson takes it and releases it.
type javaLock struct {
	server       *redistest.RedisServer
	key, channel string
	fields       []string
}

func (l javaLock) take() {
	l.server.Do(append([]string{"HSET", l.key}, l.fields...)...)
}

func (l javaLock) giveBack() {
	l.server.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('publish', ARGV[1], '0')", "1", l.key, l.channel)
}

func (l javaLock) free(t *testing.T) bool { return number(t, l.server, "EXISTS", l.key) == 0 }

// A Java program that lists the locks in another order has the second one, and waits for the first one, which a call of
// this library has. It gets it, since the call releases it, and the call gets both in the end.
func TestMultiLock_GivesWayToAJavaProgramWithAnotherOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second  func(c *lockrt.Client, key string) lockrt.Locker
		channel string
		fields  []string
	}{
		"two mutexes": {func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) }, "redisson_lock__channel:{%}", []string{javaThread, "1"}},
		"a mutex and a writer": {func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) }, "redisson_rwlock:{%}",
			[]string{"mode", "write", javaThread + ":write", "1"}},
	} {
		for order, firstLast := range map[string]bool{"gives back in the order of the keys": false, "gives back in its order": true} {
			t.Run(name+", and the program "+order, func(t *testing.T) {
				t.Parallel()
				server, key := redistest.Shared(t), redistest.Key(t, "")
				a := javaLock{server, key + ":a", "redisson_lock__channel:{" + key + ":a}", []string{javaThread, "1"}}
				b := javaLock{server, key + ":b", c.channel[:len(c.channel)-2] + key + ":b}", c.fields}
				client := newClient(t, lockrt.Options{})
				ends := make(chan string, 100)
				lockrt.AtEnd(client, func(key string) { ends <- key })
				b.take()
				got := lockLater(patient(t), lockrt.NewMultiLock(client.Mutex(a.key), c.second(client, b.key)))
				require.Equal(t, a.key, receive(t, ends, "the end of the lease of the first one"))
				until(t, "the call has given it back", func() bool { return a.free(t) })
				require.Empty(t, got)
				a.take()
				if firstLast {
					b.giveBack()
					for ended := ""; ended != b.key; {
						ended = receive(t, ends, "the end of the lease of the second one, since the first one is not free")
					}
					a.giveBack()
				} else {
					a.giveBack()
					b.giveBack()
				}
				lease := gotten(t, got, "both")
				var keys []string
				for _, part := range lease.Parts() {
					keys = append(keys, part.Key())
				}
				require.Equal(t, []string{a.key, b.key}, keys)
				require.NoError(t, lease.Err())
				free(t, lease)
				gone(t, server, a.key)
				gone(t, server, b.key)
			})
		}
	}
}

// Among programs of this library nobody gives way, however long it takes.
func TestMultiLock_GivesWayToNobodyElse(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "")
	looks := make(chan struct{}, 100)
	looked := redistest.EvalSHA(scripts.Inspect.SHA1())
	proxy := redistest.Proxy(t, server.Addr())
	proxy.OnRequest(func(cmd []string) {
		if looked(cmd) {
			looks <- struct{}{}
		}
	})
	first, second := clientOf(t, proxy.URL(), lockrt.Options{}), newClient(t, lockrt.Options{})
	held := ok(t)(second.Mutex(key + ":b").Lock(patient(t)))
	got := lockLater(patient(t), lockrt.NewMultiLock(first.Mutex(key+":a"), first.Mutex(key+":b")))
	for range 3 { // the answers to the first two have been dealt with
		receive(t, looks, "the call looks at who has the second one")
	}
	require.EqualValues(t, 1, number(t, server, "EXISTS", key+":a"))
	free(t, held)
	free(t, gotten(t, got, "both"))
}

// The time for which a call waits for a member alone counts for its wait, and the call leaves
// nothing behind when that is over.
func TestMultiLock_TheWaitEndsWhileItGivesWay(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "")
	c := newClient(t, lockrt.Options{})
	b := javaLock{server, key + ":b", "redisson_lock__channel:{" + key + ":b}", []string{javaThread, "1"}}
	b.take()
	m := lockrt.NewMultiLock(c.Mutex(key+":a"), c.Mutex(b.key))
	_, err := m.Lock(patient(t), lockrt.WithWait(time.Second))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	gone(t, server, key+":a")
	b.giveBack()
	free(t, ok(t)(m.Lock(patient(t))))
}
