package ctl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestKeys shows that keys which are not UTF-8, or do not print, are told apart, and that each verb takes the text that another one prints.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Name: "orders", OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	keys := map[string]string{
		"k:\xff": `"k:\xff"`, "k:\xfe": `"k:\xfe"`, "k:\x1b[31m\n\t": `"k:\x1b[31m\n\t"`, "k:a ": `"k:a "`, "k:a": "k:a", `k:\xff`: `k:\xff`, `"k:\xff"`: `"\"k:\\xff\""`,
		"k:\x00": `"k:\x00"`,
	}
	leases, names := map[string]*lockrt.Lease{}, map[string]string{}
	for key := range keys {
		names[key] = fmt.Sprint("Pay", len(names))
		leases[key], err = c.Mutex(key).Lock(t.Context(), lockrt.WithName(names[key]))
		require.NoError(t, err)
	}
	server.Do("HSET", "java:\xff", "11111111-1111-4111-9111-111111111111:42", "1")
	server.Do("HSET", "java:\xfe", "11111111-1111-4111-9111-111111111111:43", "1")

	list := all(t, server.URL(), "list", "-scan")
	require.Equal(t, len(keys)+3, strings.Count(list.out, "\n"), list.out)
	for line := range strings.Lines(list.out) {
		require.NotContains(t, line, "\x1b")
	}
	var l Listing
	require.NoError(t, json.Unmarshal([]byte(all(t, server.URL(), "list", "-scan", "-json").out), &l))
	var named []string
	for _, lock := range l.Locks {
		named = append(named, survey.KeyOf(lock.Key))
	}
	for _, key := range []string{"java:\xff", "java:\xfe"} {
		require.Contains(t, named, key)
		require.Contains(t, list.out, "\n"+survey.Quoted(key)+"  ")
	}
	for key, text := range keys {
		require.Contains(t, named, key)
		require.Contains(t, "\n"+list.out, "\n"+text+"  ")
		for _, lock := range l.Locks { // the text of JSON is taken, too
			if survey.KeyOf(lock.Key) == key {
				require.Contains(t, all(t, server.URL(), "show", lock.Key).out, names[key]+" of orders")
			}
		}
		shown := all(t, server.URL(), "show", text)
		require.Zero(t, shown.code, shown.err)
		require.Contains(t, shown.out, text+" (mutex)\n  held by "+names[key]+" of orders")
	}
	const bytes = "k:\xff"
	one := all(t, server.URL(), "list", keys[bytes])
	require.Equal(t, 2, strings.Count(one.out, "\n"), one.out)
	require.NotContains(t, all(t, server.URL(), "show", "-json", keys[bytes]).out, `\ufffd`)
	require.Contains(t, all(t, server.URL(), "why", keys[bytes]).out, "Nobody waits for "+keys[bytes]+".\n  held by "+names[bytes]+" of orders")
	var why Reason
	require.NoError(t, json.Unmarshal([]byte(all(t, server.URL(), "why", "-json", keys[bytes]).out), &why))
	require.Equal(t, bytes, survey.KeyOf(why.Key))

	for _, key := range slices.Sorted(maps.Keys(keys)) {
		forced := all(t, server.URL(), "force", "-yes", keys[key])
		require.Zero(t, forced.code, forced.err)
		require.Contains(t, forced.out, keys[key]+" was taken.\n")
		<-leases[key].Context().Done()
		delete(leases, key)
		for other, lease := range leases {
			require.NoError(t, lease.Err(), "%q was forced, and not %q", key, other)
		}
	}
	ran := all(t, server.URL(), "run", `"k:\n"`, "--", "printenv", "LOCKGEN_KEY")
	require.Equal(t, "k:\n\n", ran.out, ran.err)
	ran = all(t, server.URL(), "run", keys["k:\x00"], "--", "printenv", "LOCKGEN_KEY")
	require.Equal(t, keys["k:\x00"]+"\n", ran.out, ran.err)
}
