// Package replicastest tests programs of several replicas.
package replicastest

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// Main is the TestMain of a program: the test binary also runs as the replicas.
func Main(m *testing.M, main func()) {
	if replicas.Name() != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Show runs the show of a program, on the embedded server and on a real one, and check examines the printed output.
// Afterwards the server may have only keys with these prefixes.
func Show(t *testing.T, show func(ctx context.Context, url string, out io.Writer) error, check func(t *testing.T, out string), left ...string) {
	t.Helper()
	run := func(t *testing.T, url string) {
		t.Helper()
		var out bytes.Buffer
		if err := show(t.Context(), url, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		check(t, out.String())
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		run(t, "")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Server(t)
		run(t, server.URL())
		keys, err := server.Do("KEYS", "*").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if !slices.ContainsFunc(left, func(begin string) bool { return strings.HasPrefix(key, begin) }) {
				t.Errorf("%s is left behind", key)
			}
		}
	})
}
