package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneMinute(t *testing.T) {
	load, err := oneMinute("1.79 1.99 1.00 3/211 12039\n")
	require.NoError(t, err)
	require.InDelta(t, 1.79, load, 1e-9)

	_, err = oneMinute("")
	require.Error(t, err)
}

func TestAtRest_OnlyMattersForResults(t *testing.T) {
	require.NoError(t, atRest(""))
}
