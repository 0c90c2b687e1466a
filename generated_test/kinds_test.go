package generatedtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// config is the service behind the wrapper: every method calls do.
type config struct {
	do func(ctx context.Context) error
}

func (c config) Get(ctx context.Context, _ string) error    { return c.do(ctx) }
func (c config) Set(ctx context.Context, _ ...string) error { return c.do(ctx) }

// inspectConfig looks at a part of the configuration.
func inspectConfig(ctx context.Context, held lockrt.HeldShared[gen.Name]) error {
	_ = held.ID()
	return ctx.Err()
}

func TestKinds(t *testing.T) {
	t.Parallel()
	name := redistest.Key(t, "name")
	r, other := newReplica(t, nothing), newReplica(t, nothing)
	locks := gen.NewConfigLocks(other.locks)
	outside := gen.NewLockedConfig(config{nothing}, other.locks)
	called := 0
	reading := gen.NewLockedConfig(config{func(context.Context) error {
		called++
		require.NoError(t, outside.Get(patient(t), name), "many read")
		require.NoError(t, locks.Config(gen.Name(name)).RDo(patient(t), inspectConfig))
		require.ErrorIs(t, outside.Set(patient(t), name), lockrt.ErrNotAcquired, "nobody writes meanwhile")
		return nil
	}}, r.locks)
	require.NoError(t, reading.Get(patient(t), name))

	writing := gen.NewLockedConfig(config{func(ctx context.Context) error {
		called++
		token, ok := lockrt.TokenFrom(ctx)
		require.True(t, ok)
		require.Positive(t, token)
		require.ErrorIs(t, outside.Get(patient(t), name), lockrt.ErrNotAcquired)
		require.ErrorIs(t, outside.Set(patient(t), name, name+"2"), lockrt.ErrNotAcquired)
		_, err := locks.Config(gen.Name(name)).Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		return nil
	}}, r.locks)
	require.NoError(t, writing.Set(patient(t), name+"2", name))
	require.Equal(t, 2, called)

	proof, err := locks.Config(gen.Name(name)).Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, gen.Name(name), proof.Held().ID())
	require.ErrorIs(t, reading.Get(patient(t), name), lockrt.ErrNotAcquired, "it is the same lock")
	require.NoError(t, proof.Unlock(patient(t)))
	keys, err := gen.ConfigKeys{}.Set(name, name+"2")
	require.NoError(t, err)
	freed(t, keys...)
}

func TestKinds_Semaphore(t *testing.T) {
	t.Parallel()
	part := gen.Part(redistest.Key(t, "part"))
	locks, others := gen.NewConfigLocks(newReplica(t, nothing).locks), gen.NewConfigLocks(newReplica(t, nothing).locks)
	first, err := locks.Worker(part).Acquire(patient(t))
	require.NoError(t, err)
	require.Equal(t, part, first.Held().ID())
	second, err := others.Worker(part).Acquire(patient(t))
	require.NoError(t, err)
	_, err = others.Worker(part).Acquire(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "permits=2")
	require.NoError(t, first.Release(patient(t)))
	require.NoError(t, second.Release(patient(t)))
	third, err := others.Worker(part).Acquire(patient(t))
	require.NoError(t, err)
	require.NoError(t, third.Release(patient(t)))
}
