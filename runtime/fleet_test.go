package lockrt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// answerOf returns what a process has answered, if it has.
func answerOf(f lockrt.Fleet, c *lockrt.Client) (lockrt.Snapshot, bool) {
	i := slices.IndexFunc(f.Processes, func(s lockrt.Snapshot) bool { return s.Process.ID == c.ID() })
	if i < 0 {
		return lockrt.Snapshot{}, false
	}
	return f.Processes[i], true
}

// Every process that holds or waits for something answers, wherever its locks are, and so does the one that asks.
func TestFleet_AllAnswer(t *testing.T) {
	t.Parallel()
	for where, url := range map[string]string{
		"one server": redistest.Server(t).URL(),
		"sentinels":  redistest.Sentinel(t).URL(),
		"cluster":    redistest.SharedCluster(t).URL(),
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			holder := clientOf(t, url, lockrt.Options{Name: "holder"})
			waiter := clientOf(t, url, lockrt.Options{Name: "waiter"})
			asker := clientOf(t, url, lockrt.Options{Name: "asker", OpTimeout: patience})
			held := ok(t)(holder.Mutex(key).Lock(patient(t), lockrt.WithName("pay")))
			own := ok(t)(asker.Mutex(key + ":own").Lock(patient(t)))
			got := lockLater(patient(t), waiter.Mutex(key), lockrt.WithName("refund"))
			until(t, "the call waits", func() bool { return waiter.Stats().Waiting == 1 })
			until(t, "all listen, and answer", func() bool {
				f, err := asker.Fleet(patient(t), "")
				require.NoError(t, err)
				of, holds := answerOf(f, holder)
				if !holds || len(of.Held) == 0 {
					return false
				}
				require.Equal(t, "pay", heldOf(t, of, key).Name)
				require.Equal(t, "holder", of.Process.Name)
				require.Equal(t, holder.Process().PID, of.Process.PID)
				of, waits := answerOf(f, waiter)
				if !waits || len(of.Waiting) == 0 {
					return false
				}
				require.Equal(t, "refund", of.Waiting[0].Name)
				of, asks := answerOf(f, asker)
				if !asks {
					return false // one server of a cluster has not heard yet that it listens
				}
				heldOf(t, of, key+":own")
				return true
			})
			f, err := asker.Fleet(patient(t), key)
			require.NoError(t, err)
			of, _ := answerOf(f, asker)
			require.Empty(t, of.Held, "it was asked for one key")
			of, _ = answerOf(f, holder)
			require.Len(t, of.Held, 1)
			free(t, held, own)
			free(t, gotten(t, got, "the lock"))
		})
	}
}

// The report of one process comes in parts, each of which can be read and is no longer than 32 KB, and the process
// counts the entries that it leaves out.
func TestFleet_Parts(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder, asker := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	var held []*lockrt.Lease
	hold := func(n int) {
		for i := range n {
			key := fmt.Sprintf("%d:%d:<\x00\u2028>%s", len(held), i, strings.Repeat("&", 800)) // which JSON writes in six times as much
			held = append(held, ok(t)(holder.Mutex(key).Lock(patient(t))))
		}
	}
	hold(50)
	own := ok(t)(asker.Mutex("own").Lock(patient(t)))
	lengths := make(chan string, 10_000)
	watch, stop := server.NewClient().Dedicate()
	defer stop()
	watch.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { lengths <- m.Message }})
	require.NoError(t, watch.Do(patient(t), watch.B().Subscribe().Channel("lockgen_process:"+asker.ID()).Build()).Error())
	until(t, "all are named", func() bool {
		f, err := asker.Fleet(patient(t), "")
		require.NoError(t, err)
		of, _ := answerOf(f, holder)
		return len(of.Held) == 50 && of.Omitted == 0
	})
	parts := 0
	for len(lengths) > 0 {
		text := <-lengths
		if !strings.HasPrefix(text, "{") {
			continue
		}
		parts++
		require.LessOrEqual(t, len(text), 32<<10)
		require.True(t, json.Valid([]byte(text)))
	}
	require.Greater(t, parts, 1)
	free(t, append(held, own)...)
}

func TestFleet_LeavesOutWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder, asker := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	var held []*lockrt.Lease
	for i := range 210 {
		held = append(held, ok(t)(holder.Mutex(fmt.Sprint("k", i)).Lock(patient(t))))
	}
	f, err := asker.Fleet(patient(t), "")
	require.NoError(t, err)
	of, found := answerOf(f, holder)
	require.True(t, found)
	require.Len(t, of.Held, 200)
	require.Equal(t, 10, of.Omitted)
	f, err = asker.Fleet(patient(t), "k7")
	require.NoError(t, err)
	of, _ = answerOf(f, holder)
	require.Len(t, of.Held, 1)
	require.Zero(t, of.Omitted)
	free(t, held...)
}

// A process that cannot answer is named, after as long as the caller has.
func TestFleet_Silent(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	mute, asker := clientOf(t, proxy.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	held := ok(t)(mute.Mutex("k").Lock(patient(t)))
	until(t, "it listens", func() bool {
		return number(t, server, "PUBSUB", "NUMPAT") == 0 && subscribers(t, server, "lockgen_process:"+mute.ID()) == 1
	})
	proxy.Blackhole(redistest.Both)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	until(t, "it is named", func() bool {
		f, err := asker.Fleet(patientFor(t, 200*time.Millisecond), "")
		return err == nil && slices.Contains(f.Silent, mute.ID())
	})
	<-ctx.Done()
	proxy.Deliver()
	until(t, "it answers again", func() bool {
		f, err := asker.Fleet(patient(t), "")
		require.NoError(t, err)
		_, found := answerOf(f, mute)
		return found
	})
	free(t, held)
}

func patientFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Answers go to channels of this library alone: Java programs read what is said on Redisson's as numbers. A request that is none
// is not answered, and harms nobody.
func TestFleet_AnswersOnItsOwnChannelsOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	held := ok(t)(c.Mutex("k").Lock(patient(t)))
	channel := "lockgen_process:" + c.ID()
	until(t, "it listens", func() bool { return subscribers(t, server, channel) == 1 })
	heard := make(chan rueidis.PubSubMessage, 100)
	watch, stop := server.NewClient().Dedicate()
	defer stop()
	watch.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m }})
	require.NoError(t, watch.Do(patient(t), watch.B().Subscribe().Channel("redisson_lock__channel:{k}", "lockgen_process:me").Build()).Error())
	for _, request := range []string{
		"ask", "ask ", "ask 1", "ask 1 ", "ask 1 redisson_lock__channel:{k}", "ask  lockgen_process:me", "ask " + strings.Repeat("1", 65) + " lockgen_process:me",
		"trace", "trace ", "trace 1", "trace 1 redisson_lock__channel:{k} k", "trace 1 lockgen_process:me", "trace  lockgen_process:me k",
		"{", "{}", `{"id":"1"}`, `{"id":1}`, "\xff\xff", "ask 7 lockgen_process:me",
	} {
		server.Do("PUBLISH", channel, request)
	}
	m := receive(t, heard, "an answer")
	require.Equal(t, "lockgen_process:me", m.Channel)
	require.Contains(t, m.Message, `"id":"7"`)
	require.Empty(t, heard)
	free(t, held)
}

// A message without a question, a duplicate, one of another version or one that is too large does
// not make up an answer.
func TestFleet_BadAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	asker := clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	fake := "00000000-0000-8000-8000-000000000000"
	node, stop := server.NewClient().Dedicate()
	defer stop()
	say := server.NewClient()
	answer := make(chan func(id string) []string, 1)
	node.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		words := strings.Fields(m.Message)
		for _, text := range (<-answer)(words[1]) {
			_ = say.Do(context.Background(), say.B().Publish().Channel(words[2]).Message(text).Build()).Error()
		}
	}})
	require.NoError(t, node.Do(patient(t), node.B().Subscribe().Channel("lockgen_process:"+fake).Build()).Error())
	part := func(id, version, n, of, held string) string {
		return `{"version":` + version + `,"id":"` + id + `","part":` + n + `,"parts":` + of + `,"process":{"id":"` + fake + `"},"held":[` + held + `]}`
	}
	for name, test := range map[string]struct {
		say    func(id string) []string
		silent bool
		keys   []string
	}{
		"whole": {func(id string) []string { return []string{part(id, "1", "0", "1", `{"key":"a"}`)} }, false, []string{"a"}},
		"out of order": {func(id string) []string {
			return []string{part(id, "1", "1", "2", `{"key":"b"}`), part(id, "1", "0", "2", `{"key":"a"}`)}
		}, false, []string{"a", "b"}},
		"twice": {func(id string) []string {
			one := part(id, "1", "0", "2", `{"key":"a"}`)
			return []string{one, one, part(id, "1", "1", "2", `{"key":"b"}`), one}
		}, false, []string{"a", "b"}},
		"no JSON before":  {func(id string) []string { return []string{"{", part(id, "1", "0", "1", `{"key":"a"}`)} }, false, []string{"a"}},
		"another version": {func(id string) []string { return []string{part(id, "2", "0", "1", "")} }, true, nil},
		"a part too many": {func(id string) []string { return []string{part(id, "1", "1", "1", "")} }, true, nil},
	} {
		answer <- test.say
		f, err := asker.Fleet(patient(t), "")
		require.NoError(t, err, name)
		require.Equal(t, test.silent, slices.Contains(f.Silent, fake), name)
		if test.silent {
			continue
		}
		i := slices.IndexFunc(f.Processes, func(s lockrt.Snapshot) bool { return s.Process.ID == fake })
		require.GreaterOrEqual(t, i, 0, name)
		var keys []string
		for _, h := range f.Processes[i].Held {
			keys = append(keys, h.Key)
		}
		require.Equal(t, test.keys, keys, name)
	}
}

// A client that is none or closed asks nobody, and two may ask at once.
func TestFleet_Misused(t *testing.T) {
	t.Parallel()
	_, err := (*lockrt.Client)(nil).Fleet(t.Context(), "")
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = new(lockrt.Client).Fleet(t.Context(), "")
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	done := make(chan error, 5)
	for range 5 {
		go func() {
			f, err := c.Fleet(patient(t), "")
			if err == nil && len(f.Silent) > 0 {
				err = fmt.Errorf("silent: %v", f.Silent)
			}
			done <- err
		}()
	}
	for range 5 {
		require.NoError(t, receive(t, done, "an answer"))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Fleet(over, "")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Close())
	_, err = c.Fleet(t.Context(), "")
	require.ErrorIs(t, err, lockrt.ErrClosed)
	down := clientOf(t, server.URL(), lockrt.Options{OpTimeout: time.Second})
	server.Kill()
	_, err = down.Fleet(t.Context(), "")
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	_, _, err = down.ProcessOf(t.Context(), "x")
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
}

// A process answers ten times a second. A program that asks more often waits for the next second, and misses nothing.
func TestFleet_AsksAgainWhatRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder := clientOf(t, server.URL(), lockrt.Options{})
	asker := clientOf(t, server.URL(), lockrt.Options{OpTimeout: patience})
	key := redistest.Key(t, "k")
	ok(t)(holder.Mutex(key).Lock(patient(t)))
	until(t, "the holder listens", func() bool {
		f, err := asker.Fleet(patient(t), key)
		require.NoError(t, err)
		_, answers := answerOf(f, holder)
		return answers
	})
	brief, cancel := context.WithTimeout(patient(t), 50*time.Millisecond)
	defer cancel()
	for range 12 { // the last ones within the second end with their context, and say who is missing
		f, err := asker.Fleet(brief, key)
		if err == nil && len(f.Silent) > 0 {
			require.Equal(t, []string{holder.ID()}, f.Silent)
		}
	}
	for range 15 {
		f, err := asker.Fleet(patient(t), key)
		require.NoError(t, err)
		of, answers := answerOf(f, holder)
		require.True(t, answers, "silent: %v", f.Silent)
		heldOf(t, of, key)
	}
}
