package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTerminal shows that the null device, a file and a pipe are no terminals.
func TestTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	require.False(t, terminal(null))
	file, err := os.Open("main.go")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.False(t, terminal(file))
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _, _ = read.Close(), write.Close() }()
	require.False(t, terminal(read))
}
