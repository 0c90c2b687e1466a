package locktest

import (
	"os"
	"sync"
	"testing"

	"github.com/lockgen/lockgen/runtime/locktest/embedded"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A once holds one value for each test that asked, until that ends.
type once struct {
	mu   sync.Mutex
	urls map[testing.TB]string
}

var servers, embeddeds once

// Server returns the address of the test's server, the same one at every call of one test: the one
// that $REDIS_URL names, else a redis-server that is started if one is installed, else [Embedded].
// A started server serves this test alone and ends with it; a subtest is another test.
func Server(tb testing.TB) (url string) {
	tb.Helper()
	if url := os.Getenv("REDIS_URL"); url != "" {
		return url
	}
	if !redistest.Installed() {
		return Embedded(tb)
	}
	return servers.get(tb, func() string { return redistest.Server(tb).URL() })
}

// Embedded returns the address of a server inside of the test binary, the same one at
// every call of one test. It ends with the test. See package embedded for what it lacks.
func Embedded(tb testing.TB) (url string) {
	tb.Helper()
	return embeddeds.get(tb, func() string {
		url, stop, err := embedded.Start()
		if err != nil {
			tb.Fatalf("locktest: %v", err)
		}
		tb.Cleanup(stop)
		return url
	})
}

func (o *once) get(tb testing.TB, start func() string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if url, ok := o.urls[tb]; ok {
		return url
	}
	url := start()
	if o.urls == nil {
		o.urls = make(map[testing.TB]string)
	}
	o.urls[tb] = url
	tb.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.urls, tb)
	})
	return url
}
