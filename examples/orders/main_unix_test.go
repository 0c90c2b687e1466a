//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestOrders_ReplicasDoNotOutliveTheProgram reads the standard error until it ends. The replicas
// write to the standard error of their parent, so it ends when the last replica has ended.
func TestOrders_ReplicasDoNotOutliveTheProgram(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		signal os.Signal
		stderr string
	}{
		{"interrupt", os.Interrupt, "orders: act two: interrupt signal received\n"},
		{"kill", os.Kill, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			cmd := program(t, server.URL(), "-replicas=3", "-orders=3", "-work=50ms")
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())

			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "hangs") {
			}
			require.Contains(t, lines.Text(), "hangs")
			require.NoError(t, cmd.Process.Signal(tt.signal))

			said, err := io.ReadAll(stderr)
			require.NoError(t, err)
			require.Equal(t, tt.stderr, string(said))
			require.Error(t, cmd.Wait())
		})
	}
}
