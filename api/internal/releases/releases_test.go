package releases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// TestRead shows that the file can be read, and that each release was prepared before it was listed.
func TestRead(t *testing.T) {
	t.Parallel()
	all, err := Read(root)
	require.NoError(t, err)
	for _, release := range all {
		has, err := release.In(root)
		require.NoError(t, err)
		if !has {
			t.Logf("%s is not looked at: this clone is shallow (git fetch --unshallow)", release.Version)
			continue
		}
		require.NoError(t, prepared(root, release))
	}
	_, err = Read(t.TempDir())
	require.Error(t, err)
}

// prepared returns an error unless the commit of a release has its API, and a section of the changelog about it. The API is still the same.
func prepared(dir string, r Release) error {
	show := func(file string) (string, error) {
		text, err := exec.Command("git", "-C", dir, "show", r.Commit+":"+file).Output()
		if err != nil {
			return "", fmt.Errorf("%s: commit %s has no %s: %w", r.Version, r.Commit, file, err)
		}
		return string(text), nil
	}
	api := "api/" + r.Version + ".txt"
	exported, err := show(api)
	if err != nil {
		return err
	}
	present, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(api)))
	switch {
	case err != nil:
		return err
	case string(present) != exported:
		return fmt.Errorf("%s: %s has changed since", r.Version, api)
	}
	changelog, err := show("CHANGELOG.md")
	if err == nil && !strings.Contains(changelog, "\n## ["+strings.TrimPrefix(r.Version, "v")+"] - ") {
		err = fmt.Errorf("%s: CHANGELOG.md has no section about it in commit %s", r.Version, r.Commit)
	}
	return err
}

func TestPrepared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return strings.TrimSpace(string(said))
	}
	commit := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		git("add", "-A")
		git("commit", "-qm", name)
		return git("rev-parse", "HEAD")
	}
	git("init", "-q")
	release := func(commit string) Release { return Release{Version: "v0.1.0", Commit: commit} }
	require.ErrorContains(t, prepared(dir, release(commit("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n"))), "has no api/v0.1.0.txt")
	require.ErrorContains(t, prepared(dir, release(commit("api/v0.1.0.txt", "pkg a\n"))), "has no section about it")
	good := commit("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-30\n")
	require.NoError(t, prepared(dir, release(good)))
	commit("api/v0.1.0.txt", "pkg b\n")
	require.ErrorContains(t, prepared(dir, release(good)), "has changed since")
	nowhere := release(strings.Repeat("0", 40))
	require.ErrorContains(t, prepared(dir, nowhere), "has no api/v0.1.0.txt")

	shallow := filepath.Join(t.TempDir(), "shallow")
	git("clone", "-q", "--depth", "1", "file://"+filepath.ToSlash(dir), shallow)
	for _, tt := range []struct {
		dir, commit string
		has         bool
		err         string
	}{
		{dir, good, true, ""},
		{dir, nowhere.Commit, false, "RELEASES lists a commit that is on the branch"},
		{shallow, git("rev-parse", "HEAD"), true, ""},
		{shallow, good, false, ""},
		{filepath.Join(dir, "none"), good, false, "no clone of git"},
	} {
		has, err := release(tt.commit).In(tt.dir)
		require.Equal(t, tt.has, has)
		if tt.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("0a", 20), strings.Repeat("1b", 20)
	all, err := parse("# releases\n\nv0.1.0 " + one + " 2026-11-30\nv0.10.0  " + two + "\t2026-12-01\n")
	require.NoError(t, err)
	require.Equal(t, []Release{
		{"v0.1.0", one, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		{"v0.10.0", two, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
	}, all)
	for line, want := range map[string]string{
		"v0.1.0 " + one:                                                "a line is a version, a commit and a date",
		"0.1.0 " + one + " 2026-11-30":                                 "not of the form v1.2.3",
		"v0.01.0 " + one + " 2026-11-30":                               "not of the form v1.2.3",
		"v0.1.0 HEAD 2026-11-30":                                       "not 40 hexadecimal digits",
		"v0.1.0 " + one + " 30.11.2026":                                "not of the form 2006-01-02",
		"v99999999999999999999.1.0 " + one + " 2026-11-30":             "too large",
		"v0.2.0 " + one + " 2026-11-30\nv0.2.0 " + two + " 2026-12-01": "not later than the one before",
		"v0.9.0 " + one + " 2026-11-30\nv0.8.9 " + two + " 2026-12-01": "not later than the one before",
	} {
		_, err := parse(line)
		require.ErrorContains(t, err, want, line)
		require.ErrorContains(t, err, "RELEASES:", line)
	}
}
