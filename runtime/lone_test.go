package lockrt_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// plays plays a Java program that waits: it listens to the channel of the key, until it leaves, and returns what it hears.
func (l *line) plays(t *testing.T) (rc rueidis.Client, heard <-chan string, leaves func()) {
	t.Helper()
	rc = l.server.NewClient()
	messages := make(chan string, 100_000)
	conn, release := rc.Dedicate()
	t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), rc.B().Subscribe().Channel(l.channel()).Build()).Error())
	return rc, messages, func() {
		require.NoError(t, conn.Do(t.Context(), rc.B().Unsubscribe().Channel(l.channel()).Build()).Error())
	}
}

func (l *line) channel() string { return "redisson_lock__channel:{" + l.key + "}" }

// A goroutine that locks and unlocks without a pause, and that nobody of this library waits behind, leaves the key to a Java
// program that takes some milliseconds from the message to its request.
func TestMutex_ALoneCallerLeavesTurnsToJava(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	rc, heard, _ := l.plays(t)
	m := l.client.Mutex(l.key)
	const most = 12 // turns of two rounds of starts, from 5ms to 50ms
	atBest(t, "Java had a turn", func() bool {
		for len(heard) > 0 {
			<-heard
		}
		ctx, stop := context.WithCancel(patient(t))
		defer stop()
		turns, served := 0, make(chan struct{})
		var took error
		go func() {
			defer stop()
			for ctx.Err() == nil {
				select {
				case <-heard:
				case <-ctx.Done():
					return
				}
				select {
				case <-time.After(3 * time.Millisecond): // as long as a Java program takes at least
				case <-ctx.Done():
					return
				}
				n, err := rc.Do(t.Context(), rc.B().Eval().Script(javaTakes).Numkeys(1).Key(l.key).Build()).AsInt64()
				if err != nil || n == 1 {
					took = err
					return
				}
			}
		}()
		go func() {
			defer close(served)
			for ctx.Err() == nil {
				lease, err := m.Lock(ctx)
				if err != nil {
					return
				}
				turns++
				_ = lease.Unlock(context.Background())
			}
		}()
		<-served
		require.NoError(t, took)
		l.server.Do("DEL", l.key)
		l.server.Do("PUBLISH", l.channel(), "0")
		t.Logf("Go had %d turns", turns)
		return turns <= most
	})
}

// Every other request comes no sooner than 5ms after the release before it: a rule that holds on every machine.
func TestMutex_ALoneCallerAsksAfterTheStart(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	round := 0
	atBest(t, "no answer was late", func() bool {
		round++
		l.key = redistest.Key(t, "k"+strconv.Itoa(round))
		l.plays(t)
		m := l.client.Mutex(l.key)
		free(t, ok(t)(m.Lock(patient(t))))
		released, asked := l.when(gives), l.when(asks)
		for range 5 { // 5ms, 10ms, 20ms, 40ms and 50ms
			free(t, ok(t)(m.Lock(patient(t))))
		}
		free(t, ok(t)(m.Lock(patient(t))))
		if len(asked) != 6 || len(released) != 6 { // one whose answer is late is sent again
			return false
		}
		<-asked // the first one, which had no start before it
		for _, start := range []time.Duration{5, 10, 20, 40, 50} {
			require.GreaterOrEqual(t, (<-asked).Sub(<-released), start*time.Millisecond)
		}
		return true
	})
}

// Where nobody listens, a turn costs two scripts, and no command more.
func TestMutex_ALoneCallerSendsNothingMoreWhereNobodyListens(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), unwatched)
	m := c.Mutex("k")
	free(t, ok(t)(m.Lock(patient(t))))
	until(t, "the client listens", func() bool { return lockrt.Hears(c) })
	atBest(t, "no answer was late", func() bool {
		server.Do("CONFIG", "RESETSTAT")
		for range 10 {
			free(t, ok(t)(m.Lock(patient(t))))
		}
		stats := server.CommandStats()
		if stats["evalsha"] != 20 {
			return false
		}
		require.EqualValues(t, 10, stats["publish"])
		for command := range stats {
			require.NotContains(t, command, "subscribe")
			require.NotContains(t, command, "pubsub")
		}
		return true
	})
}

// A call that waits for the end of a start ends as every wait does.
func TestMutex_TheWaitForTheEndOfAStart(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	warms := func(word string) bool { return strings.Contains(word, "warm") } // a copy of such a request may come late
	requests := l.seen(func(cmd []string) bool { return asks(cmd) && !slices.ContainsFunc(cmd, warms) })
	keys := 0
	begins := func() *lockrt.Mutex { // of another key each time
		keys++
		l.key = redistest.Key(t, "k"+strconv.Itoa(keys))
		lockrt.BeginStart(l.client, l.key, time.Hour, true)
		return l.client.Mutex(l.key)
	}
	started := func() bool {
		left, _ := lockrt.StartLeft(l.client, l.key)
		return left > 0
	}
	waits := func(ctx context.Context) (got <-chan locked) {
		t.Helper()
		atBest(t, "the client asked soon after a Java program had it", func() bool {
			ctx, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			lock, done := begins(), make(chan locked, 1)
			go func() {
				lease, err := lock.Lock(ctx)
				done <- locked{lease, err}
			}()
			for range 1000 { // about five seconds
				if l.listeners(t) == 1 {
					got = done
					return true
				}
				<-time.After(5 * time.Millisecond)
			}
			cancel()
			require.ErrorIs(t, receive(t, done, "the end").err, context.Canceled)
			return false
		})
		require.Empty(t, requests)
		return got
	}

	asked := func() { // one whose answer is late is sent again
		t.Helper()
		require.NotEmpty(t, requests)
		for len(requests) > 0 {
			<-requests
		}
	}

	ctx, cancel := context.WithCancel(patient(t))
	got := waits(ctx)
	cancel()
	require.ErrorIs(t, receive(t, got, "the end").err, context.Canceled)
	require.Empty(t, requests)
	require.True(t, started())

	free(t, ok(t)(begins().TryLock(patient(t)))) // one that tries once asks at once
	asked()

	free(t, ok(t)(begins().Lock(patient(t), lockrt.WithWait(20*time.Millisecond)))) // when its wait is over
	asked()

	got = waits(patient(t))
	l.server.Do("PUBLISH", l.channel(), "0") // another owner has had it
	free(t, gotten(t, got, "the lock"))
	asked()
	require.False(t, started())

	got = waits(patient(t))
	require.NoError(t, l.client.Close())
	require.ErrorIs(t, receive(t, got, "the end").err, lockrt.ErrClosed)
	require.Empty(t, requests)
}

// listeners returns how many clients have subscribed to the channel of the key.
func (l *line) listeners(t *testing.T) int64 {
	t.Helper()
	reply, err := l.server.Do("PUBSUB", "NUMSUB", l.channel()).ToArray()
	require.NoError(t, err)
	n, err := reply[1].AsInt64()
	require.NoError(t, err)
	return n
}

// A process that releases to others in the wait queue does not ask before Java's start is over, either.
func TestMutex_WhoReleasedAsksAfterTheStart(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	_, heard, _ := l.plays(t)
	other := clientOf(t, l.server.URL(), unwatched).Mutex(l.key)
	first := ok(t)(other.Lock(patient(t)))
	got := lockLater(patient(t), l.client.Mutex(l.key))
	inLine(t, l.server, l.key, 1)
	free(t, first)
	mine := gotten(t, got, "the lock: the turn of one of ours")
	next := lockLater(patient(t), other)
	inLine(t, l.server, l.key, 1)
	released, asked := l.when(redistest.EvalSHA(scripts.Release.SHA1())), l.when(asks)
	free(t, mine)
	require.Equal(t, "00", receive(t, heard, "the message: the turn of Java"))
	mineAgain := lockLater(patient(t), l.client.Mutex(l.key))
	for range 2 { // in whatever order
		select {
		case it := <-next:
			free(t, ok(t)(it.lease, it.err))
		case it := <-mineAgain:
			free(t, ok(t)(it.lease, it.err))
		}
	}
	require.GreaterOrEqual(t, (<-asked).Sub(<-released), 5*time.Millisecond)
}

// Programs of this library do not take each other for Java programs, not even after one has listened. So nobody listens any
// more when that has left.
func TestMutex_NobodyListensAfterJava(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	_, heard, leaves := l.plays(t)
	ctx, stop := context.WithCancel(patient(t))
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	for _, c := range []*lockrt.Client{l.client, clientOf(t, l.server.URL(), unwatched)} {
		busy.Go(func() {
			for ctx.Err() == nil {
				if lease, err := c.Mutex(l.key).Lock(ctx); err == nil {
					_ = lease.Unlock(context.Background())
				}
			}
		})
	}
	for receive(t, heard, "a start") != "00" { // the first turns may be of one program alone
	}
	for range 10 { // both have released to Java
		receive(t, heard, "a message")
	}
	leaves()
	until(t, "nobody listens", func() bool { return l.listeners(t) == 0 })
}
