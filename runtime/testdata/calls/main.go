// Command calls locks a mutex that nobody else wants and unlocks it, some times, and writes what ran meanwhile into the folders lock/0,
// unlock/0, lock/1 and so on, as runtime/coverage has it:
//
//	calls <address of Redis> <key> <folder> <times>
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func main() {
	times, err := strconv.Atoi(os.Args[4])
	if err == nil {
		err = run(os.Args[1], os.Args[2], os.Args[3], times)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, key, dir string, times int) error {
	ctx := context.Background()
	c, err := lockrt.Open(ctx, url, lockrt.Options{Tracking: lockrt.TrackingOff})
	if err != nil {
		return err
	}
	m := c.Mutex(key)
	for i := range times {
		var l *lockrt.Lease
		if err := ran(filepath.Join(dir, "lock", strconv.Itoa(i)), func() (err error) { l, err = m.Lock(ctx); return err }); err != nil {
			return err
		}
		if err := ran(filepath.Join(dir, "unlock", strconv.Itoa(i)), func() error { return l.Unlock(ctx) }); err != nil {
			return err
		}
	}
	return c.Close()
}

// ran writes what ran during a call.
func ran(dir string, call func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}
