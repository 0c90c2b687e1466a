package trace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTo has one function after the other present, each until it is stopped.
func TestTo(t *testing.T) {
	require.Nil(t, Present())
	var first, second []Action
	stopFirst := To(func(s Step) { first = append(first, s.Action) })
	Present()(Step{Action: Asks})
	stopSecond := To(func(s Step) { second = append(second, s.Action) })
	stopFirst() // is not present any more
	Present()(Step{Action: Granted})
	stopSecond()
	stopSecond()
	require.Nil(t, Present())
	require.Equal(t, []Action{Asks}, first)
	require.Equal(t, []Action{Granted}, second)
}
