package sim

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cpu returns what this process has used.
func cpu(t *testing.T) time.Duration {
	self, err := syscall.GetCurrentProcess()
	require.NoError(t, err)
	var created, ended, kernel, user syscall.Filetime
	require.NoError(t, syscall.GetProcessTimes(self, &created, &ended, &kernel, &user))
	ticks := func(f syscall.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32 | int64(f.LowDateTime))
	}
	return (ticks(kernel) + ticks(user)) * 100 // of 100 ns
}
