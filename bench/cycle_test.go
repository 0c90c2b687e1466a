package main

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestDeeper shows that the depths of a page are a page of memory together, aligned in both ways, and that the error of the call is passed on.
func TestDeeper(t *testing.T) {
	t.Parallel()
	fails := errors.New("it fails")
	var at [aPage + 1]uintptr
	for n := aPage; n >= 0; n-- { // the deepest one first, so that the stack has its place
		err := deeper(n, func() error {
			var here byte
			at[n] = uintptr(unsafe.Pointer(&here))
			return fails
		})
		require.ErrorIs(t, err, fails)
	}
	step := at[0] - at[1]
	for n := range aPage {
		require.Equal(t, step, at[n]-at[n+1])
	}
	require.NotZero(t, step/8%2, "steps of %d bytes", step)
	require.GreaterOrEqual(t, int(aPage*step), os.Getpagesize())
}
