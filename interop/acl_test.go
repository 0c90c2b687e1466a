package interop

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// aUser is a line of the documentation that gives a user permissions.
var aUser = regexp.MustCompile(`(?m)^> ACL SETUSER (\w+) (.*)$`)

// TestACL shares locks on a server on which each side has only the permissions that the documentation lists for it.
func TestACL(t *testing.T) {
	server := redistest.Server(t)
	permit := func(file, user string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := 0
		for _, line := range aUser.FindAllStringSubmatch(string(text), -1) {
			if line[1] == user {
				server.Do(append([]string{"ACL", "SETUSER", user}, strings.Fields(line[2])...)...)
				lines++
			}
		}
		require.Positive(t, lines, "%s says what %s needs", file, user)
	}
	permit("../runtime/ACL.md", "orders")
	permit("README.md", "java")
	f := newFleet(t, site{
		name:     "standalone, ACL",
		url:      "redis://orders:secret@" + server.Addr(),
		mode:     "single",
		address:  server.URL(),
		settings: []string{"user=java", "password=secret"},
		nodes:    []*redistest.RedisServer{server},
	}, theVersion(t))
	t.Run("handover", f.handovers)
	t.Run("force", f.force)
	t.Run("reentry", f.reentry)
	t.Run("several", f.several)
	t.Run("tokens", f.tokens)
	t.Run("permits", f.permits)
	f.cell(t, "all kinds", "nothing more needs to be permitted", func(t *testing.T) string {
		log, err := server.Do("ACL", "LOG").ToArray()
		require.NoError(t, err)
		var denied []string
		for _, entry := range log {
			fields, err := entry.AsStrMap()
			require.NoError(t, err)
			if fields["object"] == "test1" {
				continue // Redisson checks with it whether the server is a cluster
			}
			denied = append(denied, fields["username"]+": "+fields["reason"]+" "+fields["object"])
		}
		require.Empty(t, denied)
		return "to the users of both sides"
	})
}
