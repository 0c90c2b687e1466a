package releases

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// TestRead shows that the file can be read, and that the API of each release is kept.
func TestRead(t *testing.T) {
	t.Parallel()
	all, err := Read(root)
	require.NoError(t, err)
	for _, release := range all {
		require.FileExists(t, filepath.Join(root, "api", release.Version+".txt"), "cp api/next.txt api/%s.txt", release.Version)
	}
	_, err = Read(t.TempDir())
	require.Error(t, err)
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
