//go:build unix

package sim

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cpu returns what this process has used.
func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
