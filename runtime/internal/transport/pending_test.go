package transport

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection is avoided while a request over it has had no answer for longer than the caller has patience, and used again
// after the answer.
func TestPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pending
		require.Equal(t, time.Now(), p.oldest(), "nothing is pending")
		first, ok := p.begin(time.Second)
		require.True(t, ok)
		sent := time.Now()
		time.Sleep(time.Second)
		second, ok := p.begin(time.Second)
		require.True(t, ok, "for as long as the patience, and not longer")
		time.Sleep(time.Nanosecond)
		_, ok = p.begin(time.Second)
		require.False(t, ok)
		require.Equal(t, sent, p.oldest())
		first()
		first() // once is enough
		_, ok = p.begin(time.Second)
		require.True(t, ok, "the second request is not old")
		second()
	})
}

// A client whose servers get new addresses keeps nothing for those that have gone.
func TestPendings_OfServersThatHaveGone(t *testing.T) {
	t.Parallel()
	var p pendings
	answered := p.note("waits")
	waits := p.of["waits"]
	for i := range 100 {
		p.note(fmt.Sprint("server ", i))()
	}
	require.Len(t, p.of, 2)
	require.Same(t, waits, p.of["waits"])
	answered()
	p.note("another")
	require.Len(t, p.of, 1)
}

// A request is among those of its server also if a request to another server, of which nothing is known yet, is sent at the same time.
func TestPendings_OfServersThatCome(t *testing.T) {
	t.Parallel()
	var p pendings
	over := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(over)
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				p.note(fmt.Sprint("server ", i))()
			}
		}
	})
	for range 20_000 {
		answered, ok := p.begin("one", time.Hour)
		require.True(t, ok)
		p.mu.Lock()
		one := p.of["one"]
		p.mu.Unlock()
		require.NotNil(t, one)
		require.False(t, one.none())
		answered()
	}
}
