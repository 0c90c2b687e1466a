package lockrt_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

type lockFunc = func(ctx context.Context, opts ...lockrt.LockOption) (*lockrt.Lease, error)

func cycleOf(b *testing.B, ctx context.Context, lock lockFunc) {
	lease, err := lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRWMutex locks a read-write lock that nobody else wants, then one that a process reads already, and
// one that many read and some write.
func BenchmarkRWMutex(b *testing.B) {
	b.Run("write", func(b *testing.B) {
		m := benchClient(b).RWMutex(redistest.Key(b, "k"))
		b.ReportAllocs()
		for b.Loop() {
			cycleOf(b, context.Background(), m.Lock)
		}
	})
	b.Run("read", func(b *testing.B) {
		m := benchClient(b).RWMutex(redistest.Key(b, "k"))
		b.ReportAllocs()
		for b.Loop() {
			cycleOf(b, context.Background(), m.RLock)
		}
	})
	b.Run("join", func(b *testing.B) {
		m := benchClient(b).RWMutex(redistest.Key(b, "k"))
		first, err := m.RLock(context.Background())
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			cycleOf(b, context.Background(), m.RLock)
		}
		require.NoError(b, first.Unlock(context.Background()))
	})
	for _, readers := range []int{16, 1000} {
		b.Run("readers="+strconv.Itoa(readers), func(b *testing.B) {
			m := benchClient(b).RWMutex(redistest.Key(b, "k"))
			first, err := m.RLock(context.Background())
			require.NoError(b, err)
			b.ResetTimer()
			share(b, readers, func(int) func() { return func() { cycleOf(b, context.Background(), m.RLock) } })
			b.StopTimer()
			require.NoError(b, first.Unlock(context.Background()))
		})
	}
	b.Run("readers=90,writers=10", func(b *testing.B) {
		m := benchClient(b).RWMutex(redistest.Key(b, "k"))
		share(b, 100, func(g int) func() {
			lock := m.RLock
			if g%10 == 0 {
				lock = m.Lock
			}
			return func() { cycleOf(b, context.Background(), lock) }
		})
	})
}
