package lockrt_test

import (
	"sync"
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

// A release that hands the lock over is behind a PING, so that Redis sends the message to the next owner before the reply: see
// TestOrder_MessageBeforeReply. The lean script, which only frees a lock, goes alone.
func TestHandOver_IsBehindAPing(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	lock, other := l.client.Mutex(l.key), clientOf(t, l.server.URL(), unwatched).Mutex(l.key)
	lean, full := redistest.EvalSHA(scripts.Free.SHA1()), redistest.EvalSHA(scripts.Release.SHA1())
	var mu sync.Mutex // guards the rest
	var before string
	behind := map[string][]string{} // by scripts: the commands before them
	l.proxy.OnRequest(func(cmd []string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case lean(cmd):
			behind["lean"] = append(behind["lean"], before)
		case full(cmd):
			behind["full"] = append(behind["full"], before)
		}
		before = cmd[0]
	})
	atBest(t, "the lock was freed and handed over, and no other request came between", func() bool {
		mu.Lock()
		clear(behind)
		mu.Unlock()
		free(t, ok(t)(lock.Lock(patient(t))))
		held := ok(t)(lock.Lock(patient(t)))
		got := lockLater(patient(t), other)
		inLine(t, l.server, l.key, 1)
		free(t, held)
		free(t, gotten(t, got, "the lock"))
		mu.Lock()
		defer mu.Unlock()
		return len(behind["lean"]) == 1 && behind["lean"][0] != "PING" && len(behind["full"]) == 1 && behind["full"][0] == "PING"
	})
}
