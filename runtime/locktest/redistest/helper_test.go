package redistest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

const (
	opTimeout = 20 * time.Second // ends tests that have already gone wrong
	pollEvery = 5 * time.Millisecond
)

// failing is a test that may fail without failing the one around it.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatal(args ...any) {
	f.message = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// run calls fn in a goroutine that Fatal can end.
func (f *failing) run(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}
