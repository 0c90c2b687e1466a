package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneMinute(t *testing.T) {
	load, err := oneMinute("1.79 1.99 1.00 3/211 12039\n")
	require.NoError(t, err)
	require.InDelta(t, 1.79, load, 1e-9)

	_, err = oneMinute("")
	require.Error(t, err)
}

// Results of a busy machine are not written. Figures that are printed may be of one.
func TestAtRest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "loadavg")
	require.NoError(t, atRest(".", file), "no system but Linux has the file")
	for text, want := range map[string]string{
		"0.40 3.00 3.00 1/200 1\n": "",
		"1.50 1.00 1.00 1/200 1\n": "",
		"1.51 0.00 0.00 1/200 1\n": "a load of 1.51",
		"busy\n":                   "invalid syntax",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, atRest("", file))
		err := atRest(".", file)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestLongEnough(t *testing.T) {
	t.Parallel()
	require.NoError(t, longEnough(".", 5, 500*time.Millisecond, 12*time.Second))
	require.NoError(t, longEnough(".", 6, time.Second, time.Minute))
	require.NoError(t, longEnough("", 1, time.Millisecond, 0))
	for _, err := range []error{
		longEnough(".", 4, 500*time.Millisecond, 12*time.Second),
		longEnough(".", 5, 499*time.Millisecond, 12*time.Second),
		longEnough(".", 5, 500*time.Millisecond, 11*time.Second),
	} {
		require.ErrorContains(t, err, "at least 5 rounds of 500ms and rests of 12s")
	}
}

// A library that shows nothing in a long rest has a short one.
func TestRests(t *testing.T) {
	t.Parallel()
	e := &env{rest: 12 * time.Second}
	for _, x := range []struct {
		name       string
		rest, wait time.Duration
	}{
		{lockgen, 12 * time.Second, 36 * time.Second}, {"rueidislock", 12 * time.Second, 36 * time.Second},
		{"redislock", brief, brief}, {"redsync/go-redis", brief, brief},
	} {
		lib, ok := known(x.name)
		require.True(t, ok)
		require.Equal(t, x.rest, e.restOf(lib), x.name)
		require.Equal(t, x.wait, e.waitOf(lib), x.name)
	}
	e.rest = 300 * time.Millisecond
	lib, _ := known("redislock")
	require.Equal(t, e.rest, e.restOf(lib))
	require.Equal(t, 3*e.rest, e.waitOf(lib))
}
