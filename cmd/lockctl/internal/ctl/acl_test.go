package ctl

import (
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestVerbs_Permissions shows that the user of lockctl in ACL.md is enough for each verb that shows something.
func TestVerbs_Permissions(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	text, err := os.ReadFile("../../../../runtime/ACL.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## lockctl\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if rules, ok := strings.CutPrefix(strings.TrimSpace(line), "> ACL SETUSER "); ok {
			server.Do(append([]string{"ACL", "SETUSER"}, strings.Fields(rules)...)...)
		}
	}
	at, err := url.Parse(server.URL())
	require.NoError(t, err)
	at.User = url.UserPassword("operator", "secret")

	holder(t, server.URL(), "orders", "order:7")
	waiter := holder(t, server.URL(), "stock", "stock:1", "order:7")
	_, err = io.WriteString(waiter.stdin, "\n")
	require.NoError(t, err)
	until(t, "it waits", func() bool { return len(listed(t, server.URL(), "order:7").Waiters) == 1 })
	server.Do("HSET", "java", "11111111-1111-4111-9111-111111111111:42", "1")
	for _, c := range []struct{ args, shows string }{
		{"list", "order:7"},
		{"list -scan", "Java 11111111-1111-4111-9111-111111111111"},
		{"show order:7", "orders"},
		{"show java", "Java 11111111-1111-4111-9111-111111111111"},
		{"why order:7", "stock"},
		{"deadlocks", "No"},
		{"doctor", "eviction"},
	} {
		s := all(t, at.String(), strings.Fields(c.args)...)
		require.Zero(t, s.code, "%s: %s%s", c.args, s.out, s.err)
		require.Contains(t, s.out, c.shows, c.args)
		require.NotContains(t, s.out+s.err, "NOPERM", c.args)
		require.NotContains(t, s.out, "unknown", c.args)
	}
	denied, err := server.Do("ACL", "LOG").ToArray()
	require.NoError(t, err)
	require.Empty(t, denied)
}
