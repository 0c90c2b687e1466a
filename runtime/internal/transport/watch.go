package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// A topologyWatcher checks, while the client holds or waits for anything, whether its keys are on other servers than
// before.
//
// Sentinels decide that another server is the master, and rueidis follows without reporting it. The new master may miss
// the last writes, so leases are confirmed at once, and waiters stand in its wait queues and listen there.
//
// The connections to the old master show nothing: it may be stopped, or go on as a master for some seconds. So the
// watcher looks for another address, which costs no request. The watcher of a cluster looks by [cluster.glance] and [guards.look].
type topologyWatcher struct {
	link    *link
	hub     *hub.Hub
	look    func() // nil if there is nothing to look for
	rest    func() // called when the client holds nothing and waits for nothing; may be nil
	running atomic.Bool
	master  string // guarded by running

	mu    sync.Mutex
	reign context.Context // ends when there is another master; nil unless something waits for that
	over  func()
}

// onFailover calls f when there is another master, until stop is called.
func (w *topologyWatcher) onFailover(f func()) (stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reign == nil {
		w.reign, w.over = context.WithCancel(context.Background())
	}
	return context.AfterFunc(w.reign, f)
}

// notify calls the functions that wait for another master.
func (w *topologyWatcher) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reign != nil {
		w.over()
		w.reign = nil
	}
}

// lookEvery is the interval of the watcher.
const lookEvery = 10 * time.Millisecond

// start makes the watcher run, which stops when the client holds nothing and waits for nothing. It does not block.
func (w *topologyWatcher) start() {
	if w.look != nil && w.running.CompareAndSwap(false, true) {
		w.link.cfg.User.Go(w.run)
	}
}

func (w *topologyWatcher) run() {
	user := w.link.cfg.User
	for {
		w.look()
		if !w.link.pause(lookEvery) {
			return
		}
		if user.Busy() {
			continue
		}
		if w.rest != nil {
			w.rest()
		}
		w.running.Store(false)
		if !user.Busy() || !w.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// lookForMaster confirms all leases if there is another master.
func (w *topologyWatcher) lookForMaster() {
	master, before := w.link.servers(), w.master
	if master == before {
		return
	}
	if w.master = master; before == "" { // of a client that was made without a server
		return
	}
	w.link.cfg.Logger.Info("lockgen: another server is the master; the client checks what it holds there", "server", master)
	w.link.cfg.User.Recheck(nil)
	w.hub.Reconnect()
	w.notify()
}
