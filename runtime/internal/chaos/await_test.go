//go:build linux

package chaos

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAwait_CountsTheTimeInWhichTheProcessesRun shows that a busy machine takes none of the patience.
func TestAwait_CountsTheTimeInWhichTheProcessesRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stalls []time.Duration // from, to, from, to, ...
		wants  time.Duration
	}{
		"at rest":                   {wants: 10 * time.Second},
		"two pauses":                {stalls: []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 8 * time.Second}, wants: 15 * time.Second},
		"a pause in the added time": {stalls: []time.Duration{0, 9 * time.Second, 12 * time.Second, 16 * time.Second}, wants: 23 * time.Second},
		"a pause after it":          {stalls: []time.Duration{10 * time.Second, 11 * time.Second}, wants: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, at := newHistory(), now()
				for i := 0; i < len(tt.stalls); i += 2 {
					h.add(event{What: stalled, Proc: 1, At: at + int64(tt.stalls[i]), Until: at + int64(tt.stalls[i+1])})
				}
				began := time.Now()
				require.False(t, h.awaitFrom(at, 10*time.Second, func([]*attempt) bool { return false }))
				require.Equal(t, tt.wants, time.Since(began))
			})
		})
	}
}

// TestAwait_LooksSeldom shows that many events at once are one reason to look.
func TestAwait_LooksSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, looks := newHistory(), 0
		done := make(chan bool)
		go func() {
			done <- h.await(time.Hour, func(all []*attempt) bool {
				looks++
				return len(all) == 2000
			})
		}()
		for n := range 2000 {
			synctest.Wait()
			h.add(event{What: called, Proc: 1, Call: n + 1, Key: longKey})
		}
		require.True(t, <-done)
		require.Equal(t, 2, looks)
	})
}
