package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestRun(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	require.NoError(t, run(t.Context(), server.URL()))
	left, err := server.Do("DBSIZE").AsInt64()
	require.NoError(t, err)
	require.Zero(t, left, "locks left behind")
	require.Error(t, run(t.Context(), "redis://127.0.0.1:1"))
}
