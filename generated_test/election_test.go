package generatedtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	rtgen "github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// election is the service behind the wrapper: every method calls do.
type election struct {
	do func(ctx context.Context) error
}

func (e election) Lead(ctx context.Context, _ gen.Part) error { return e.do(ctx) }
func (e election) Move(ctx context.Context, _ gen.Part) error { return e.do(ctx) }

// candidate wraps do in a process of its own, on servers.
func candidate(t *testing.T, servers []*redistest.RedisServer, do func(ctx context.Context) error) *gen.LockedElection {
	t.Helper()
	var clients []*lockrt.Client
	for _, s := range servers {
		c, err := lockrt.Open(t.Context(), s.URL(), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() }) // its server may be gone
		clients = append(clients, c)
	}
	return gen.NewLockedElection(election{do}, newReplica(t, nothing).locks, clients)
}

func TestElection(t *testing.T) {
	t.Parallel()
	part := gen.Part(redistest.Key(t, "part"))
	servers := []*redistest.RedisServer{redistest.Server(t), redistest.Server(t), redistest.Server(t)}
	key, err := gen.ElectionKeys{}.Lead(part)
	require.NoError(t, err)
	keys, err := gen.ElectionKeys{}.Move(part)
	require.NoError(t, err)
	require.Equal(t, [2]rtgen.KindKey{{Kind: lockrt.KindRedLock, Key: key}, {Kind: lockrt.KindMutex, Key: keys[1].Key}}, keys)
	other := candidate(t, servers, nothing)
	var last int64
	led := 0
	one := candidate(t, servers, func(ctx context.Context) error {
		led++
		token, ok := lockrt.TokenFrom(ctx)
		require.True(t, ok)
		require.Greater(t, token, last, "tokens rise")
		last = token
		require.ErrorIs(t, other.Lead(patient(t), part), lockrt.ErrNotAcquired)
		require.ErrorIs(t, other.Move(patient(t), part), lockrt.ErrNotAcquired)
		return nil
	})
	require.NoError(t, one.Lead(patient(t), part))
	for _, s := range servers {
		comes(t, "every server has it back", func() bool {
			n, err := s.Do("EXISTS", key).AsInt64()
			require.NoError(t, err)
			return n == 0
		})
	}
	require.NoError(t, other.Move(patient(t), part))
	servers[2].Kill()
	comes(t, "the majority has it back", func() bool { return one.Lead(patient(t), part) == nil })
	require.Equal(t, 2, led)
	servers[1].Kill()
	require.Error(t, one.Lead(patient(t), part), "a majority is gone")
	require.Equal(t, 2, led)
	freed(t, keys[1].Key)
}
