package transport

import (
	"fmt"
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
	waits := p.to("waits")
	answered := waits.note()
	for i := range 100 {
		p.to(fmt.Sprint("server ", i)).note()()
	}
	require.Len(t, p.of, 2)
	require.Same(t, waits, p.to("waits"))
	answered()
	p.to("another")
	require.Len(t, p.of, 1)
}
