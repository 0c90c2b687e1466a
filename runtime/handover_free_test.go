package lockrt_test

import (
	"testing"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A hand-over takes its process out of the wait queue. If no other process is in it, the leaner script frees the lock.
func TestHandOver_IsFreedByTheLeanScript(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	other := clientOf(t, l.server.URL(), unwatched).Mutex(l.key)
	frees := make(chan bool, 10000)
	lean, full := redistest.EvalSHA(scripts.Free.SHA1()), redistest.EvalSHA(scripts.Release.SHA1())
	l.proxy.OnRequest(func(cmd []string) {
		if lean(cmd) || full(cmd) {
			frees <- lean(cmd)
		}
	})
	atBest(t, "the lock was handed over, and freed by the lean script", func() bool {
		handed := l.client.Stats().HandOversRemote
		held := ok(t)(other.Lock(patient(t)))
		got := lockLater(patient(t), l.client.Mutex(l.key))
		inLine(t, l.server, l.key, 1)
		free(t, held)
		free(t, gotten(t, got, "the lock"))
		gone(t, l.server, l.key, "lockgen_waiting:{"+l.key+"}")
		leans := len(frees) > 0
		for range len(frees) {
			leans = <-frees && leans
		}
		return leans && l.client.Stats().HandOversRemote > handed
	})
}
