package main

import (
	"debug/buildinfo"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Lockgen of another tree takes turns with that of this one. It is no other library.
func TestBefore(t *testing.T) {
	t.Parallel()
	tree, err := filepath.Abs("..") // this one, whose packages have been built
	require.NoError(t, err)
	program, remove, err := buildBefore(t.Context(), tree)
	require.NoError(t, err)
	defer remove()
	built, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	replaced := map[string]string{}
	for _, m := range built.Deps {
		if m.Replace != nil {
			replaced[m.Path] = m.Replace.Path
		}
	}
	want := map[string]string{}
	for module, folder := range theirs {
		want[module] = filepath.Join(tree, folder)
	}
	require.Equal(t, want, replaced)

	r := &report{rounds: 2, length: time.Second, rest: time.Millisecond, held: 10} // the workers of a busy machine have begun before that is over
	require.NoError(t, r.run(t.Context(), lockgen, "S9, reading", "", program))
	require.Len(t, r.tables, 1)
	reads := r.tables[0]
	require.Equal(t, []string{reading, before}, reads.names)
	require.Positive(t, of(reads.values(before, "rate")).median)
	require.Empty(t, reads.best(headline{metric: "rate"}))
}

func TestBuildBefore_Errors(t *testing.T) {
	t.Parallel()
	program, remove, err := buildBefore(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, program)
	remove()
	empty := t.TempDir()
	_, _, err = buildBefore(t.Context(), empty)
	require.ErrorContains(t, err, "the program with lockgen of "+empty+": go build: ")
}
