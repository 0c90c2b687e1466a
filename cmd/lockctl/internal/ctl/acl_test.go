package ctl

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/survey"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// permissions returns the rules of a section of runtime/ACL.md, each with the user before them.
func permissions(t *testing.T, name string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../../runtime/ACL.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+name+"\n")
	require.True(t, found, name)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if rules, ok := strings.CutPrefix(strings.TrimSpace(line), "> ACL SETUSER "); ok {
			all = append(all, strings.Fields(rules))
		}
	}
	require.NotEmpty(t, all, name)
	return all
}

// TestDoctor_Rights shows that doctor finds each right that the user of a service lacks, and no other.
func TestDoctor_Rights(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	as := func(rules ...string) { server.Do(append([]string{"ACL", "SETUSER", "orders"}, rules...)...) }
	examined := func(args ...string) (code int, state, text string) {
		s := all(t, server.URL(), append([]string{"doctor", "-json"}, args...)...)
		var d Diagnosis
		require.NoError(t, json.Unmarshal([]byte(s.out), &d), s.err)
		i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.About == "rights" })
		return s.code, d.Findings[i].State, d.Findings[i].Text
	}
	var commands []string
	for _, rules := range permissions(t, "Mutex") {
		as(rules[1:]...)
		for _, rule := range rules {
			if command, ok := strings.CutPrefix(rule, "+"); ok {
				commands = append(commands, command)
			}
		}
	}
	code, state, text := examined("-for", "orders", "order:7")
	require.Zero(t, code)
	require.Equal(t, stateOK, state)
	require.Equal(t, "the user orders may do what a Mutex with the key order:7 needs", text)
	require.Greater(t, len(commands), 20)
	for _, command := range commands {
		as("-" + command)
		code, state, text = examined("-for", "orders", "order:7")
		require.Equal(t, exitFound, code, command)
		require.Equal(t, stateWrong, state, command)
		require.Equal(t, "of what a Mutex with the key order:7 needs, the user orders may not call "+command, text)
		as("+" + command)
	}
	_, state, text = examined("-for", "orders", "stock:1")
	require.Equal(t, stateWrong, state)
	require.Equal(t, "of what a Mutex with the key stock:1 needs, the user orders may not use the key stock:1, lockgen_waiting:{stock:1}, redisson_lock_token:{stock:1};"+
		" use the channel redisson_lock__channel:{stock:1}", text)
	code, state, text = examined("-for", "nobody")
	require.Equal(t, exitFound, code)
	require.Equal(t, stateWrong, state)
	require.Equal(t, "this server does not know the user nobody", text)

	as("-hdel", "+info", "+config|get", "+acl|whoami", "+acl|dryrun", "+scan", "+dbsize", "+eval")
	s := ctl(t, "redis://orders:secret@"+server.Addr(), "doctor", "order:7")
	require.Zero(t, s.code, "a note: this user need not lock: %s", s.err)
	require.Contains(t, s.out, "of what a Mutex with the key order:7 needs, the user orders may not call hdel\n")
	require.Equal(t, exitUsage, ctl(t, server.URL(), "doctor", "-for", "").code)
}

// TestRightsOn_InCluster shows that doctor tries in a cluster what runtime/ACL.md has for it.
func TestRightsOn_InCluster(t *testing.T) {
	t.Parallel()
	names := func(cluster bool) (all []string) {
		for _, command := range rightsOn("k", cluster) {
			name := strings.ToLower(command[0])
			if slices.Contains([]string{"script", "client", "cluster", "pubsub"}, name) {
				name += "|" + strings.ToLower(command[1])
			}
			all = append(all, name)
		}
		return all
	}
	for _, rule := range permissions(t, "Redis Cluster")[0][1:] {
		if command := strings.TrimPrefix(rule, "+"); command != "cluster|shards" { // of Redis 8 and Valkey 8
			require.Contains(t, names(true), command)
		}
	}
	for _, only := range []string{"client|tracking", "unsubscribe", "pubsub|numsub"} {
		require.Contains(t, names(false), only)
		require.NotContains(t, names(true), only)
	}
}

// TestVerbs_Permissions shows that the user of lockctl in ACL.md is enough for each verb that shows something.
func TestVerbs_Permissions(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, rules := range permissions(t, "lockctl") {
		server.Do(append([]string{"ACL", "SETUSER"}, rules...)...)
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
	readLock(server, "page", survey.MostFields)
	for _, c := range []struct{ args, shows string }{
		{"list", "order:7"},
		{"list -scan", "Java 11111111-1111-4111-9111-111111111111"},
		{"show order:7", "orders"},
		{"show java", "Java 11111111-1111-4111-9111-111111111111"},
		{"show page", "Java 11111111-1111-4111-9111-111111111111"},
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
