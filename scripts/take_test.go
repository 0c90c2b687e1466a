package scripts_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// takes acquires locks that are free, and returns the reply for each.
func takes(all ...*scene) rueidis.RedisResult {
	var keys, args []string
	for _, s := range all {
		keys = append(keys, s.key)
		args = append(args, ours, "600000")
	}
	return all[0].eval(scripts.Take, keys, args...)
}

// frees releases locks for which no process of this library waits.
func frees(all ...*scene) rueidis.RedisResult {
	return freesBy(plain, all...)
}

// freesBy is frees with a command that publishes.
func freesBy(publish string, all ...*scene) rueidis.RedisResult {
	keys, args := []string(nil), []string{unlocked, publish}
	for _, s := range all {
		keys = append(keys, s.key)
		args = append(args, ours)
	}
	for _, s := range all {
		keys = append(keys, s.waiting())
	}
	keys = append(keys, all[0].channel)
	return all[0].eval(scripts.Free, keys, args...)
}

// only returns the reply of a script about its only lock.
func only(reply rueidis.RedisResult) (int64, error) {
	if n, err := reply.AsInt64(); err == nil {
		return n, nil
	}
	return first(numbers(reply.ToArray()))
}

func TestTake(t *testing.T) {
	t.Parallel()
	const taken, never = -2, -1
	runRows(t, []row{
		{"free", free, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"ours", oursHeld, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"somebody else's", theirsHeld, atMost(other), atMost(other), fields{theirs: "1"}, other, nil},
		{"somebody else's, entered twice", theirsTwice, atMost(other), atMost(other), fields{theirs: "2"}, other, nil},
		{"somebody else's for ever", theirsAlways, number(never), number(never), fields{theirs: "1"}, -1, nil},
		{"somebody else's, expired", theirsOver, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"ours, expired", oursOver, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil},
		{"a list", aList, failure("WRONGTYPE"), failure("WRONGTYPE"), []string{"a", "b"}, -1, nil},
		{"a read lock", readLock, atMost(other), atMost(other), fields{"mode": "read", theirs: "1"}, other, nil},
		{"a write lock", writeLock, atMost(other), atMost(other), fields{"mode": "write", theirs + ":write": "1"}, other, nil},
	}, func(s *scene) (int64, error) { return only(takes(s)) })
}

func TestFree(t *testing.T) {
	t.Parallel()
	const notOurs, freed = -1, 0
	runRows(t, []row{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours", oursHeld, number(freed), number(notOurs), nil, -2, []string{unlocked}},
		{"somebody else's", theirsHeld, number(notOurs), number(notOurs), fields{theirs: "1"}, other, nil},
		{"somebody else's, expired", theirsOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours, expired", oursOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil},
		{"a list", aList, number(notOurs), number(notOurs), []string{"a", "b"}, -1, nil},
		{"a read lock", readLock, number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, nil},
		{"a write lock", writeLock, number(notOurs), number(notOurs), fields{"mode": "write", theirs + ":write": "1"}, other, nil},
	}, func(s *scene) (int64, error) { return only(frees(s)) })
}

func TestFree_LeavesALockThatSomebodyIsInLineFor(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.set(oursHeld)
		_, err := s.ask(uuidOf(s, 1)+":1", "1")
		require.NoError(t, err)
		for range 2 {
			n, err := only(frees(s))
			require.NoError(t, err)
			require.EqualValues(t, 3, n)
		}
		require.Equal(t, fields{ours: "1"}, s.dump())
		require.Equal(t, []string{uuidOf(s, 1) + ":1"}, s.line())
	})
}

// A release says whether Redisson's waiters listen, and nothing more than before as long as none does.
func TestFree_SaysWhetherRedissonsWaitersListen(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			s, other, quiet := newSceneUnheard(t, c), newSceneUnheard(t, c), newSceneUnheard(t, c)
			all := []*scene{s, other, quiet}
			frees := func(publish string) rueidis.RedisResult {
				for _, one := range all {
					one.set(oursHeld)
				}
				return freesBy(publish, all...)
			}
			releases := func(one *scene) int64 {
				one.set(oursHeld)
				reply, err := one.giveBack(ours, "", "5", plain)
				require.NoError(t, err)
				require.Zero(t, reply[0])
				return reply[3]
			}
			pattern, release := c.Dedicate() // of a monitor, which does not wait
			defer release()
			require.NoError(t, pattern.Do(t.Context(), c.B().Psubscribe().Pattern("redisson_lock__channel:*").Build()).Error())
			n, err := frees(plain).AsInt64()
			require.NoError(t, err)
			require.Zero(t, n)
			require.Zero(t, releases(other))

			other.listen()
			got, err := numbers(frees(plain).ToArray())
			require.NoError(t, err)
			require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, got)
			require.EqualValues(t, 1, releases(other))
			require.Zero(t, releases(quiet))
			other.set(oursHeld)
			_, err = other.ask(uuidOf(other, 1)+":1", "1")
			require.NoError(t, err)
			reply, err := other.giveBack(ours, "", "5", plain) // past the process that waits
			require.NoError(t, err)
			require.Equal(t, []int64{0, 1}, []int64{reply[0], reply[3]})
		})
	}
}

// The message goes to the channel that Redisson gives a key, also if a part of the key decides its slot.
func TestFree_Channel(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		first := newSceneUnheard(t, s.c)
		first.set(oursHeld)
		s.key = "{" + s.key + "}:7"
		s.channel = "redisson_lock__channel:" + s.key
		s.listen()
		s.set(oursHeld)
		keys := []string{first.key, s.key, first.waiting(), "lockgen_waiting:" + s.key, first.channel}
		reply, err := numbers(s.eval(scripts.Free, keys, unlocked, plain, ours, ours).ToArray())
		require.NoError(t, err)
		require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0, 1}, reply)
		require.Equal(t, []string{unlocked}, s.messages())
	})
}

// TestTake_TheSameTwice shows that a lock that one run takes for one owner is not free for the
// next.
func TestTake_TheSameTwice(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			s, other := newScene(t, c), newScene(t, c)
			reply, err := numbers(s.eval(scripts.Take, []string{s.key, other.key, s.key}, ours, "600000", ours, "600000", theirs, "600000").ToArray())
			require.NoError(t, err)
			require.Equal(t, []int64{-2, 0, 0, 0, -2, 0, 0, 0}, reply[:8])
			require.Positive(t, reply[8])
			require.Equal(t, fields{ours: "1"}, s.dump())
			require.Equal(t, fields{ours: "1"}, other.dump())
		})
	}
}

// TestTake_OneLease shows that locks with one lease of all are taken like those with a lease each.
func TestTake_OneLease(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			one, two, three, taken := newScene(t, c), newScene(t, c), newScene(t, c), newScene(t, c)
			taken.set(theirsHeld)
			n, err := one.eval(scripts.Take, []string{one.key, two.key}, ours, theirs, "600000").AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, -2, n)
			reply, err := numbers(one.eval(scripts.Take, []string{three.key, taken.key, one.key}, theirs, ours, ours, "600000").ToArray())
			require.NoError(t, err)
			require.Equal(t, []int64{-2, 0, 0, 0}, reply[:4])
			require.Positive(t, reply[4])
			require.Equal(t, []int64{-2, 0, 0, 0}, reply[8:])
			for s, owner := range map[*scene]string{one: ours, two: theirs, three: theirs} {
				require.Equal(t, fields{owner: "1"}, s.dump())
				require.InDelta(t, 600_000, s.int("PTTL", s.key), 60_000)
			}
		})
	}
}

// TestTake_ManyAreIndependent shows the replies for each lock, and the single reply for all if they
// are the same.
func TestTake_ManyAreIndependent(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			one, two, text, taken := newScene(t, c), newScene(t, c), newScene(t, c), newScene(t, c)
			text.set(aString)
			taken.set(theirsHeld)
			n, err := takes(one, two).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, -2, n)
			got, err := numbers(frees(one, two).ToArray())
			require.NoError(t, err)
			require.Equal(t, []int64{0, 0, 0, 1, 0, 0, 0, 1}, got)
			require.Equal(t, []string{unlocked}, two.messages())

			for range 2 {
				reply, err := takes(one, taken, text, two).ToArray()
				require.NoError(t, err)
				require.Len(t, reply, 16)
				for _, i := range []int{0, 12} {
					got, err := numbers(reply[i:i+4], nil)
					require.NoError(t, err)
					require.Equal(t, []int64{-2, 0, 0, 0}, got)
				}
				got, err := numbers(reply[4:8], nil)
				require.NoError(t, err)
				require.EqualValues(t, 1, got[1])
				_, err = numbers(reply[8:12], nil)
				require.ErrorContains(t, err, "WRONGTYPE")
			}
			reply, err := frees(one, taken, text, two).ToArray()
			require.NoError(t, err)
			got, err = numbers(reply, nil)
			require.NoError(t, err)
			require.Equal(t, []int64{0, 0, 0, 1, -1, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 1}, got)
			require.Nil(t, one.dump())
			require.Nil(t, two.dump())
			require.Equal(t, "text", text.dump())
			require.Equal(t, fields{theirs: "1"}, taken.dump())
		})
	}
}

func TestTake_WithoutMemoryOrPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := server.Client()
	held, wanted := newScene(t, c), newScene(t, c)
	held.set(oursHeld)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := only(takes(wanted))
	require.ErrorContains(t, err, "OOM")
	require.Nil(t, wanted.dump())
	n, err := only(frees(held))
	require.NoError(t, err)
	require.Zero(t, n)
	server.Do("CONFIG", "SET", "maxmemory", "0")

	held.set(oursHeld)
	server.Do("ACL", "SETUSER", "half", "on", ">pass", "~*", "&*", "+@all", "-hdel")
	half := *held
	half.c = server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "half", "pass" })
	_, err = only(frees(&half))
	require.Error(t, err)
	require.Regexp(t, "can't run this command|has no permissions to run", err.Error(), "before Redis 7.2, and since")
	require.Equal(t, fields{ours: "1"}, held.dump())

	// The lock without the permission to publish is freed, and so are those beside it.
	other := newScene(t, c)
	other.set(oursHeld)
	server.Do("ACL", "SETUSER", "half", "+hdel", "resetchannels", "&"+other.channel)
	other.c = half.c
	got, err := numbers(frees(other, &half).ToArray())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 0, 1, 0, 0, 0, 0}, got, "both are free")
	require.Nil(t, held.dump())
	require.Nil(t, other.dump())
}
