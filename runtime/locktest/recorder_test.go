package locktest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// A Recorder is a test whose failures are looked at.
type Recorder struct {
	testing.TB

	Errors   []string
	mu       sync.Mutex
	cleanups []func()
}

// Run calls f, which may end with FailNow.
func (r *Recorder) Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// End does what is done when the test ends.
func (r *Recorder) End() {
	for _, f := range r.cleanups {
		defer f()
	}
}

func (r *Recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *Recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Errors = append(r.Errors, fmt.Sprintf(format, args...))
}

func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
