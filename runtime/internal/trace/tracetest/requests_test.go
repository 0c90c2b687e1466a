package tracetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDraws reads the tokens that a script has drawn: for an owner that does not listen and loses its grant again, for one that loses it since
// the script may not set its time to live, for one that gets a message about its grant, and for the owner that asks.
func TestDraws(t *testing.T) {
	set := func(last string) []string { return []string{"set", counter("k"), last, "px", "600000"} }
	calls := [][]string{
		{"hdel", "k", "before:1"}, set("101"), {"hset", "k", "deaf:1", "1"}, {"del", "k"},
		set("102"), {"hset", "k", "denied:1", "1"}, {"hdel", "k", "denied:1"},
		set("105"), {"hset", "k", "next:2", "1"}, {"publish", "lockgen_process:next", "granted 2 30000 7 103 of lock k"},
		{"hdel", "k", "before:2"}, set("107"), {"hset", "k", "asks:3", "1"}, {"hdel", "k", "before:3"},
	}
	require.Equal(t, []draw{{"asks:3", 1, 101}, {"asks:3", 1, 102}, {"next:2", 3, 105}, {"asks:3", 2, 107}}, draws(calls, "k", "asks:3", 2))
}
