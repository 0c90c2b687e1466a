package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNextLook(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		longest, ttl time.Duration
		heard        bool
		want         time.Duration
	}{
		"messages arrive":                   {LookAgain, -1, true, LookAgain},
		"and the lease ends sooner":         {LookAgain, 10 * time.Second, true, 10*time.Second + ms},
		"and the lease ends later":          {LookAgainBlind, 10 * time.Second, true, LookAgainBlind},
		"the lease is about to end":         {LookAgain, 0, true, ms},
		"no messages arrive":                {LookAgain, -1, false, PollUnheard},
		"and the lease ends sooner as well": {LookAgain, 100 * ms, false, 101 * ms},
	} {
		require.Equal(t, c.want, NextLook(c.longest, c.ttl, c.heard), name)
	}
}
