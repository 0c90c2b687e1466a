package tracetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDraws reads the tokens that a script has drawn: for an owner that does not listen and loses its grant again, for one that gets
// a message about its grant, and for the owner that asks.
func TestDraws(t *testing.T) {
	set := func(last string) []string { return []string{"set", counter("k"), last, "px", "600000"} }
	calls := [][]string{
		set("101"), {"hset", "k", "deaf:1", "1"}, {"del", "k"},
		set("104"), {"hset", "k", "next:2", "1"}, {"publish", "lockgen_process:next", "granted 2 30000 7 102 of lock k"},
		set("106"), {"hset", "k", "asks:3", "1"},
	}
	require.Equal(t, []draw{{"asks:3", 1, 101}, {"next:2", 3, 104}, {"asks:3", 2, 106}}, draws(calls, "k", "asks:3", 2))
}
