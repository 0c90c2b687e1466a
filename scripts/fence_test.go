package scripts_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// askFenced asks for tokens, whose counter is kept for keep milliseconds.
func (s *scene) askFenced(place, line string, tokens, keep int) ([]int64, error) {
	return numbers(s.eval(scripts.Acquire, []string{s.key, s.waiting(), s.counter()},
		"600000", place, line, strconv.Itoa(tokens), strconv.Itoa(keep)).ToArray())
}

// number returns a number that Redis keeps as a string.
func (s *scene) number(words ...string) int64 {
	s.t.Helper()
	n, err := s.command(words...).AsInt64()
	require.NoError(s.t, err)
	return n
}

// micros is now in microseconds, give or take a minute: servers and tests share a machine.
func micros() float64 { return float64(time.Now().UnixMicro()) }

const minute = 60 * 1_000_000

func TestAcquire_DrawsTokens(t *testing.T) {
	t.Parallel()
	const counter = "redisson_lock_token:{KEY}"
	onBackends(t, func(t *testing.T, s *scene) {
		first, err := s.askFenced(ours, "0", 3, 60_000)
		require.NoError(t, err)
		require.EqualValues(t, -2, first[0])
		require.InDelta(t, micros(), first[1], minute, "with no counter they begin at the time")
		require.Equal(t, first[1]+2, s.number("GET", counter), "the last of three")
		require.LessOrEqual(t, s.int("PTTL", counter), int64(60_000))
		require.Positive(t, s.int("PTTL", counter))

		again, err := s.askFenced(ours, "0", 1, 0)
		require.NoError(t, err)
		require.Greater(t, again[1], first[1]+2, "sent twice: larger ones")
		require.EqualValues(t, -1, s.int("PTTL", counter), "for ever")

		ahead := again[1] + 10*minute
		s.set([][]string{{"SET", counter, strconv.FormatInt(ahead, 10)}})
		third, err := s.askFenced(ours, "0", 1, 60_000)
		require.NoError(t, err)
		require.Equal(t, ahead+1, third[1], "the clock is behind")
		require.EqualValues(t, -1, s.int("PTTL", counter), "what Java keeps is kept")

		s.set([][]string{{"DEL", counter}})
		fourth, err := s.askFenced(ours, "0", 1, 60_000)
		require.NoError(t, err)
		require.Greater(t, fourth[1], again[1], "the counter was lost, and they rise all the same")
	})
}

func TestAcquire_DrawsNoTokensForWhoIsRefused(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.set(theirsHeld)
		reply, err := s.askFenced(ours, "0", 3, 60_000)
		require.NoError(t, err)
		require.Len(t, reply, 4)
		require.Zero(t, s.int("EXISTS", "redisson_lock_token:{KEY}"))
	})
}

func TestAcquire_ChangesNothingWhenTheCounterIsNone(t *testing.T) {
	t.Parallel()
	const counter = "redisson_lock_token:{KEY}"
	for name, state := range map[string]struct {
		before []string
		failed string
	}{
		"a list":       {[]string{"RPUSH", counter, "1"}, "WRONGTYPE"},
		"a word":       {[]string{"SET", counter, "many"}, "not an integer or out of range"},
		"no number":    {[]string{"SET", counter, "nan"}, "not an integer or out of range"},
		"out of range": {[]string{"SET", counter, "9007199254740992"}, "not an integer or out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBackends(t, func(t *testing.T, s *scene) {
				s.set([][]string{state.before})
				for range 2 {
					_, err := s.askFenced(ours, "1", 3, 60_000)
					require.ErrorContains(t, err, state.failed)
				}
				require.Nil(t, s.dump())
				require.Empty(t, s.line())
			})
		})
	}
}

// lastWord returns the token of a grant.
func lastWord(t *testing.T, message string) int64 {
	t.Helper()
	message, _, _ = strings.Cut(message, " of ")
	n, err := strconv.ParseInt(message[strings.LastIndexByte(message, ' ')+1:], 10, 64)
	require.NoError(t, err)
	return n
}

func TestRelease_HandsTokensOver(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		holder := uuidOf(s, 0) + ":1"
		next := newPeer(t, s.c, uuidOf(s, 2))
		held, err := s.askFenced(holder, "0", 1, 60_000)
		require.NoError(t, err)
		place := next.uuid + ":5+16,60000"
		for range 2 {
			_, err = s.askFenced(place, "1", 1, 60_000)
			require.NoError(t, err)
		}
		require.Equal(t, []string{place}, s.line())
		n, err := s.release(holder)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, fields{next.uuid + ":5": "1"}, s.dump())
		token := lastWord(t, next.last())
		require.Greater(t, token, held[1])
		require.Equal(t, token+15, s.number("GET", "redisson_lock_token:{KEY}"))

		// It enters the queue again in the step that releases, and keeps the lock, as no other process waits.
		reply, err := s.giveBack(place, next.uuid+":6+16,60000", "0", plain)
		require.NoError(t, err)
		require.EqualValues(t, 2, reply[0])
		require.Greater(t, reply[3], token+15)
		require.Equal(t, fields{next.uuid + ":6": "1"}, s.dump())
	})
}

// last returns the last message to the process.
func (p *peer) last() string {
	p.t.Helper()
	select {
	case m := <-p.heard:
		return m
	case <-time.After(wakeTimeout):
		require.Fail(p.t, "the channel is silent")
		return ""
	}
}

func TestRelease_ABrokenCounterKeepsTheLockFromNobody(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		holder := uuidOf(s, 0) + ":1"
		next := newPeer(t, s.c, uuidOf(s, 2))
		_, err := s.acquire(holder)
		require.NoError(t, err)
		_, err = s.askFenced(next.uuid+":5+16,60000", "1", 1, 60_000)
		require.NoError(t, err)
		s.set([][]string{{"RPUSH", "redisson_lock_token:{KEY}", "1"}})
		n, err := s.release(holder)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"granted 5 T 0 0"}, next.told(), "it asks, and hears what is wrong")
		require.Equal(t, fields{next.uuid + ":5": "1"}, s.dump())
	})
}

func TestRelease_LeavesTheLineByItsPlace(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.set(theirsHeld)
		place := uuidOf(s, 2) + ":5+16,60000"
		_, err := s.askFenced(place, "1", 1, 60_000)
		require.NoError(t, err)
		n, err := s.release(place)
		require.NoError(t, err)
		require.EqualValues(t, -1, n)
		require.Empty(t, s.line())
	})
}

// TestDraw_WithoutMemory shows that a lock with tokens is handed over by a server that takes no more data.
func TestDraw_WithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newSceneUnheard(t, server.Client())
	holder, next := uuidOf(s, 0)+":1", newPeer(t, s.c, uuidOf(s, 2))
	_, err := s.askFenced(holder, "0", 1, 60_000)
	require.NoError(t, err)
	_, err = s.askFenced(next.uuid+":5+16,60000", "1", 1, 60_000)
	require.NoError(t, err)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, err = s.askFenced(holder, "0", 1, 60_000)
	require.ErrorContains(t, err, "OOM")
	n, err := s.release(holder)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, []string{"granted 5 T 0 T"}, next.told())
}
