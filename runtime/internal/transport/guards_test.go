package transport

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A guarded user holds some keys, and notes where it listens.
type guarded struct {
	*fake
	keys []string
	tags map[string]int
}

func (g *guarded) EachKey(f func(key string)) {
	for _, key := range g.keys {
		f(key)
	}
}

func (g *guarded) ListenTo(tag string) (leave func()) {
	g.tags[tag]++
	return func() {
		if g.tags[tag]--; g.tags[tag] == 0 {
			delete(g.tags, tag)
		}
	}
}

// A server that gets a slot with a held key from another one has a guard.
func TestGuards_FollowEachSlot(t *testing.T) {
	t.Parallel()
	u := &guarded{keys: []string{"one", "two"}, tags: map[string]int{}}
	cl := newCluster(&link{cfg: Config{User: u, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}})
	g := &guards{cluster: cl, of: map[string]guard{}}
	owned := func(addrs map[string]string) {
		now := newOwners()
		for key, addr := range addrs {
			now.of[protocol.Slot(key)] = now.place(addr)
		}
		cl.mu.Lock()
		defer cl.mu.Unlock()
		cl.latest++
		cl.learn(cl.latest, now)
	}
	owned(map[string]string{"one": "a:1", "two": "a:1"})
	g.holds("one")
	g.holds("two")
	g.look()
	require.Len(t, u.tags, 1)
	for moves, stays := range map[string]string{"one": "two", "two": "one"} {
		owned(map[string]string{moves: "b:1", stays: "a:1"})
		g.look()
		require.Len(t, g.of, 2, moves)
		require.Equal(t, map[string]int{protocol.HashTag("one"): 1, protocol.HashTag("two"): 1}, u.tags, moves)
		owned(map[string]string{"one": "a:1", "two": "a:1"})
		g.look()
		require.Len(t, g.of, 1)
		require.Len(t, u.tags, 1)
	}
	g.rest()
	require.Empty(t, u.tags)
}

// A server has a guard also if the watcher looks when the client has got its first key there, and does not guard the lease yet.
func TestGuards_OfAKeyThatIsAboutToBeHeld(t *testing.T) {
	t.Parallel()
	u := &guarded{tags: map[string]int{}}
	cl := newCluster(&link{cfg: Config{User: u}})
	cl.note(protocol.Slot("k"), "a:1")
	g := &guards{cluster: cl, of: map[string]guard{}}
	g.look()
	g.holds("k")
	g.look()
	g.look()
	require.Equal(t, map[string]int{protocol.HashTag("k"): 1}, u.tags)
	g.holds("k")
	g.rest() // the watcher saw before that the client held nothing
	g.look()
	require.Equal(t, map[string]int{protocol.HashTag("k"): 1}, u.tags)

	cl.note(protocol.Slot("other"), "a:1")
	g.holds("other")
	cl.note(protocol.Slot("k"), "b:1") // with the guard
	g.look()
	require.Contains(t, u.tags, protocol.HashTag("other"))
	g.rest()
	require.Empty(t, u.tags)
}
