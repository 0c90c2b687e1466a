package main_test

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/synth"
)

// BenchmarkCheck generates in memory for modules of 50 packages and compares with what is there, as a run in CI does. The command that measures
// whole processes, beside other generators, is internal/speed.
func BenchmarkCheck(b *testing.B) {
	root, err := filepath.Abs("../..")
	require.NoError(b, err)
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("interfaces=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			require.NoError(b, synth.Write(dir, root, n))
			require.Zero(b, cli.Main([]string{"-cache=off", "./..."}, dir, io.Discard, b.Output()))
			b.ReportAllocs()
			for b.Loop() {
				require.Zero(b, cli.Main([]string{"-cache=off", "-check", "./..."}, dir, io.Discard, b.Output()))
			}
		})
	}
}
