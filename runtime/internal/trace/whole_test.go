package trace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCaller reports the events of two calls, each with its number, and nothing where nobody gets them.
func TestCaller(t *testing.T) {
	none := NewCaller(PresentWholes(), "a")
	require.Nil(t, none)
	report := func(c *Caller) {
		c.Begins([]string{"k", "l", "m"})
		c.Asks(Tries, 1, 2)
		c.Gets(0, "a:1", "first")
		c.Turned(1)
		c.Says(Ends)
		c.Takes("whole")
		c.Part(Asks, 4, nil)
		c.Part(Has, 4, &Part{Owner: "b:1", Token: 7, Lease: "part"})
		c.Wins(8)
	}
	report(none)
	var all []Whole
	stop := WholesTo(func(w Whole) { all = append(all, w) })
	one, other := NewCaller(PresentWholes(), "a"), NewCaller(PresentWholes(), "b")
	stop()
	require.Nil(t, PresentWholes())
	report(one)
	other.Says(Ends)
	n := all[0].Call
	require.Equal(t, []Whole{
		{Action: Begins, Call: n, Client: "a", Members: []string{"k", "l", "m"}},
		{Action: Tries, Call: n, Client: "a", Member: 1, Many: 2},
		{Action: Has, Call: n, Client: "a", Member: 1, Owner: "a:1", Lease: "first"},
		{Action: Turned, Call: n, Client: "a", Member: 2},
		{Action: Ends, Call: n, Client: "a"},
		{Action: Takes, Call: n, Client: "a", Lease: "whole"},
		{Action: Asks, Call: n, Client: "a", Member: 4},
		{Action: Has, Call: n, Client: "a", Member: 4, Owner: "b:1", Token: 7, Lease: "part"},
		{Action: Wins, Call: n, Client: "a", Token: 8},
		{Action: Ends, Call: n + 1, Client: "b"},
	}, all)
}
