//go:build unix

package ctl

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestTLS_Pipe shows that a private key which comes through a named pipe, and so can be read once, is enough.
func TestTLS_Pipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := issue(t, dir, "all")
	server := redistest.Server(t, redistest.WithTLS(cert, key, cert))
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, text, 0o600) }()
	s := ctl(t, server.URL(), "list", "-cacert", cert, "-cert", cert, "-key", pipe)
	require.Zero(t, s.code, s.err)
	require.NoError(t, <-written)
}
