// Package serverclock sets what one server of a test takes for the time of day. It works on Linux and needs cc.
package serverclock

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// source is that of a library that a server loads before the others. Its name does not end in .c, which the go command would compile.
//
//go:embed clock.c.txt
var source []byte

// A Clock is what one server takes for the time of day. The machine's stays as it is. Its methods are for the goroutine of the test.
type Clock struct {
	library string
	offset  *os.File
	ahead   time.Duration
}

// New returns a clock that is right. Its files last as long as the test.
func New(t *testing.T) *Clock {
	t.Helper()
	dir := t.TempDir()
	c := &Clock{library: filepath.Join(dir, "clock.so")}
	text := filepath.Join(dir, "clock.c")
	succeeded(t, os.WriteFile(text, source, 0o600))
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, text).CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	c.offset, err = os.Create(filepath.Join(dir, "offset"))
	succeeded(t, err)
	t.Cleanup(func() { _ = c.offset.Close() })
	c.Jump(t, 0) // the file has its size from now on
	return c
}

// Env returns the environment in which a server goes by the clock.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "LOCKGEN_CLOCK=" + c.offset.Name()}
}

// Jump moves the clock on by d, or back.
func (c *Clock) Jump(t *testing.T, d time.Duration) {
	t.Helper()
	c.ahead += d
	_, err := c.offset.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.ahead.Microseconds())), 0)
	succeeded(t, err)
}

func succeeded(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
