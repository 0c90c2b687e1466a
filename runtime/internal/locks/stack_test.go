package locks

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A sounding is a context that measures how deep the stack is where a call asks for Done, in bytes below the address base.
type sounding struct {
	context.Context
	base    uintptr
	deepest atomic.Int64
}

func (s *sounding) Done() <-chan struct{} {
	var here byte
	s.deepest.Store(max(s.deepest.Load(), int64(s.base-uintptr(unsafe.Pointer(&here)))))
	return s.Context.Done()
}

// deepen makes the stack so large that the call after it does not have to move it.
//
//go:noinline
func deepen() byte {
	var room [64 << 10]byte
	for i := range room {
		room[i] = byte(i)
	}
	return room[len(room)/2]
}

// mostBelow is how many bytes a call that waits may have on the stack: with the select below them and with what Go keeps free, they fit a
// stack of 4 KiB with room for the frames of the caller. The race detector makes some frames larger, too.
const mostBelow = 2000

// Very many calls may wait, and each has its stack for as long as it does.
func TestCallsThatWaitHaveASmallStack(t *testing.T) { //nolint:paralleltest // a collection would move the stacks
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{Tracks: true})
	for _, m := range []Locker{
		c.Mutex(redistest.Key(t, "mutex")), c.FairMutex(redistest.Key(t, "fair")), c.RWMutex(redistest.Key(t, "rw")),
	} {
		held, err := m.Lock(patient(t))
		require.NoError(t, err)
		s, got := &sounding{Context: patient(t)}, make(chan error, 1)
		go func() {
			deepen()
			var base byte
			s.base = uintptr(unsafe.Pointer(&base))
			l, err := m.Lock(s)
			if err == nil {
				err = l.Unlock(context.Background())
			}
			got <- err
		}()
		require.Eventually(t, func() bool { return s.deepest.Load() > 0 && c.Base().Counts.Waiting.Load() == 1 }, long, time.Millisecond)
		require.NoError(t, held.Unlock(patient(t)))
		require.NoError(t, <-got)
		require.Less(t, s.deepest.Load(), int64(mostBelow), "%T", m)
	}
}
