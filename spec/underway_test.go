package spec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The states of a trace stay as small as they are, however many owners have had the lock and were withdrawn. Each release may still arrive.
func TestCheck_StatesStaySmall(t *testing.T) {
	c := NewCheck(1, time.Second, 0, 0)
	say := func(e Said) { require.NoError(t, c.Say(e)) }
	const owners = 500
	for n := 1; n <= owners; n++ {
		o, free := Owner{0, n}, &Seen{Owner: None}
		say(Said{Action: "Asks", Who: o})
		say(Said{Action: "RunAcquire", Who: o, TTL: time.Minute, Srv: &Seen{Owner: o, Left: time.Minute}})
		say(Said{Action: "Granted", Who: o, Trust: time.Minute})
		say(Said{Action: "Unlock", Who: o})
		say(Said{Action: "GiveBack", Who: o})
		say(Said{Action: "RunRelease", Who: o, Srv: free})
		require.Len(t, c.states, 1)
		require.Empty(t, c.states[0].Net)
		require.Empty(t, c.states[0].Gone)
	}
	for n := range owners {
		say(Said{Action: "RunRelease", Who: Owner{0, n + 1}, Srv: &Seen{Owner: None}})
	}
	require.ErrorContains(t, c.Say(Said{Action: "RunRelease", Who: Owner{0, owners + 1}}), "nobody has asked for it")
}
