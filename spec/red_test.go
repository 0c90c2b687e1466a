package spec

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRedCheckRejects has traces of a RedLock on three servers leave the protocol, each with its last event.
func TestRedCheckRejects(t *testing.T) {
	part := func(server int, trust time.Duration, token int64) RedSaid {
		return RedSaid{Action: "Part", Process: 1, Server: server, Owner: "a:1", Trust: trust, Token: token}
	}
	ends := func(at time.Duration, server int) RedSaid {
		return RedSaid{At: at, Action: "Ends", Process: 1, Server: server, Owner: "a:1"}
	}
	knows := func(server int, token int64) RedSaid { return RedSaid{Action: "Knows", Server: server, Token: token} }
	elected := func(at, trust time.Duration, token int64) RedSaid {
		return RedSaid{At: at, Action: "Elected", Process: 1, Trust: trust, Token: token}
	}
	others := elected(1, time.Second, 0)
	others.Process = 2
	two := []RedSaid{part(0, time.Second, 0), part(1, 2*time.Second, 0)}
	tokens := []RedSaid{part(0, time.Second, 5), part(1, 2*time.Second, 7), knows(0, 7), knows(1, 7)}
	with := func(some []RedSaid, more ...RedSaid) []RedSaid { return append(slices.Clone(some), more...) }
	for name, trace := range map[string][]RedSaid{
		"a part alone":                 {part(0, time.Second, 0), elected(0, time.Second, 0)},
		"another's parts":              with(two, others),
		"trusted for the longest part": with(two, elected(0, 2*time.Second, 0)),
		"a part that has ended":        with(two, ends(1, 0), elected(2, time.Second/2, 0)),
		"a part that ran out":          with(two, elected(time.Second+1, 0, 0)),
		"a part that ended, prolonged": with(two, ends(1, 0), part(0, 3*time.Second, 0), elected(2, time.Second/2, 0)),
		"the smallest token":           with(tokens, elected(0, time.Second, 5)),
		"a token that one knows":       {part(0, time.Second, 5), part(1, time.Second, 7), knows(0, 5), knows(1, 7), elected(0, time.Second, 7)},
		"what is no action":            {{Action: "Dance"}},
	} {
		c := NewRedCheck(3)
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	for name, trace := range map[string][]RedSaid{
		"a majority":                  with(two, elected(0, time.Second, 0)),
		"one more part":               with(two, part(2, 3*time.Second, 0), elected(0, 2*time.Second, 0)),
		"renewed":                     with(two, part(0, 3*time.Second, 0), elected(0, 2*time.Second, 0)),
		"ended at this moment":        with(two, ends(1, 0), elected(1, time.Second-1, 0)),
		"the largest token":           with(tokens, elected(0, time.Second, 7)),
		"a server that has forgotten": with(tokens, RedSaid{Action: "Fault"}, knows(0, 0), elected(0, time.Second, 7)),
	} {
		c := NewRedCheck(3)
		for _, e := range trace {
			require.NoError(t, c.Say(e), name)
		}
	}
}
