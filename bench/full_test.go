package main

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInFull_OneKey shows that goroutines of one process have a key one at a time, and that the process keeps nothing of it afterwards.
func TestInFull_OneKey(t *testing.T) {
	t.Parallel()
	f, err := newFull(startServer(t).addr, kLease)
	require.NoError(t, err)
	const callers, each = 20, 50
	count := 0 // the lock guards it
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				h, err := f.lock("full:one")
				if err == nil {
					count++
					err = h.unlock()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, errs)
	require.Equal(t, callers*each, count)
	require.Empty(t, f.keys)
	require.Empty(t, f.holds)
	require.Empty(t, f.renewals)
	require.Empty(t, f.awaited)
	require.EqualValues(t, callers*each, f.grants.Load())
}

// TestInFull_LateUnlock shows that an unlock without an answer ends after unlocksEnd, and not sooner, and that others are awaited as before.
func TestInFull_LateUnlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fullClient{promisingClient: &promisingClient{}, began: time.Now()}
		awaits := func() *fullHeld {
			h := &fullHeld{f: f, promisedHeld: promisedHeld{done: make(chan error, 1)}}
			f.await(h)
			return h
		}
		first := awaits()
		<-time.After(unlocksEnd / 2)
		second := awaits()
		<-time.After(unlocksEnd / 2)
		f.endLate()
		require.Empty(t, first.done)
		<-time.After(1)
		f.endLate()
		require.ErrorIs(t, <-first.done, errLate)
		require.Empty(t, second.done)
		require.Equal(t, []*fullHeld{second}, f.awaited)
	})
}
