//go:build linux

package chaos

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock is what one server takes for the time of day. The machine's stays as it is.
type clock struct {
	library string
	offset  *os.File
	ahead   time.Duration
}

// newClock compiles the library that lies to the server, with cc.
func newClock(t *testing.T) *clock {
	t.Helper()
	dir := t.TempDir()
	c := &clock{library: filepath.Join(dir, "clock.so")}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, filepath.Join("testdata", "clock.c")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	c.offset, err = os.Create(filepath.Join(dir, "offset"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.offset.Close() })
	c.jump(t, 0) // the file has its size from now on
	return c
}

func (c *clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "LOCKGEN_CLOCK=" + c.offset.Name()}
}

// jump moves the clock on by d, or back.
func (c *clock) jump(t *testing.T, d time.Duration) {
	t.Helper()
	c.ahead += d
	_, err := c.offset.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.ahead.Microseconds())), 0)
	require.NoError(t, err)
}
