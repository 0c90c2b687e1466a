package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// TestMany_AreIndependent shows that the reply of a script about one lock of several is that of a
// run for this lock alone, whatever is wrong with the others.
func TestMany_AreIndependent(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			free, text, taken, held := newScene(t, c), newScene(t, c), newScene(t, c), newScene(t, c)
			text.set(aString)
			taken.set(theirsHeld)
			held.set(oursHeld)
			all := []*scene{free, text, taken, held}
			for range 2 {
				var keys, args []string
				for _, s := range all {
					keys = append(keys, s.key, s.waiting(), s.counter())
					args = append(args, "600000", ours, "1", "0", "0")
				}
				reply, err := free.eval(scripts.Acquire, keys, args...).ToArray()
				require.NoError(t, err)
				require.Len(t, reply, 4*len(all))
				n, err := numbers(reply[0:4], nil)
				require.NoError(t, err)
				require.Equal(t, []int64{-2, 0, 0, 0}, n)
				_, err = numbers(reply[4:8], nil)
				require.ErrorContains(t, err, "WRONGTYPE")
				n, err = numbers(reply[8:12], nil)
				require.NoError(t, err)
				require.Positive(t, n[0])
				require.EqualValues(t, 1, n[1])
				n, err = numbers(reply[12:16], nil)
				require.NoError(t, err)
				require.EqualValues(t, -2, n[0])
			}
			require.Equal(t, "text", text.dump())
			require.Equal(t, fields{theirs: "1"}, taken.dump())

			for i, want := range [][]int64{{0, -1, -1, 0}, {-1, -1, -1, -1}} {
				keys, args := []string(nil), []string{unlocked, plain, claim}
				for _, s := range all {
					keys = append(keys, s.key, s.waiting(), s.channel, s.counter())
					args = append(args, ours, "", "0", "0")
				}
				reply, err := free.eval(scripts.Release, keys, args...).ToArray()
				require.NoError(t, err)
				for j := range all {
					n, err := numbers(reply[4*j:4*j+4], nil)
					require.NoError(t, err)
					require.Equal(t, want[j], n[0], "run %d, lock %d", i, j)
				}
			}
			require.Nil(t, free.dump())
			require.Nil(t, held.dump())
			require.Equal(t, "text", text.dump())
			require.Equal(t, []string{unlocked}, free.messages())
			require.Equal(t, []string{unlocked}, held.messages())
			require.Empty(t, taken.messages())
		})
	}
}

// TestMany_WithoutMemory shows that a server that takes no more data refuses acquisitions, and no
// release.
func TestMany_WithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := server.Client()
	one, two := newScene(t, c), newScene(t, c)
	two.set(oursHeld)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	reply, err := one.eval(scripts.Release, []string{
		one.key, one.waiting(), one.channel, one.counter(),
		two.key, two.waiting(), two.channel, two.counter(),
	}, unlocked, plain, claim, ours, "", "0", "0", ours, "", "0", "0").ToArray()
	require.NoError(t, err)
	n, err := numbers(reply, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{-1, 0, 0, 0, 0, 0, 0, 1}, n)
	require.Nil(t, two.dump())
}
