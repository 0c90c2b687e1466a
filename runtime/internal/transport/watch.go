package transport

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A topologyWatcher checks, while the client holds or waits for anything, whether its keys are on other servers than
// before.
//
// Sentinels decide that another server is the master, and rueidis follows without reporting it. The new master may miss
// the last writes, so leases are confirmed at once, and waiters stand in its wait queues and listen there.
//
// The connections to the old master show nothing: it may be stopped, or go on as a master for some seconds. So the
// watcher looks for another address, which costs no request. The watcher of a cluster is [cluster.look].
type topologyWatcher struct {
	sentinel bool   // there are sentinels
	look     func() // nil if there is nothing to look for
	rest     func() // called when the client holds nothing and waits for nothing; may be nil
	running  atomic.Bool
	master   string       // guarded by running
	closing  atomic.Int64 // since when requests fail because their connection is closed, a monotonic.Time; 0 if they do not

	mu      sync.Mutex
	waiting map[*func()]struct{} // called when there is another master
}

// onFailover calls f when there is another master, until stop is called.
func (w *topologyWatcher) onFailover(f func()) (stop func()) {
	if !w.sentinel {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[*func()]struct{}{}
	}
	w.waiting[&f] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, &f)
	}
}

// notify calls the functions that wait for another master.
func (w *topologyWatcher) notify() {
	w.mu.Lock()
	waiting := slices.Collect(maps.Keys(w.waiting))
	w.mu.Unlock()
	for _, f := range waiting {
		(*f)()
	}
}

// lookEvery is the interval of the watcher.
const lookEvery = 10 * time.Millisecond

// Watch starts the watcher, which stops when the client holds nothing and waits for nothing. It does not block.
func (t *Transport) Watch() {
	if t.watcher.look != nil && t.watcher.running.CompareAndSwap(false, true) {
		t.cfg.User.Go(t.watch)
	}
}

func (t *Transport) watch() {
	w := &t.watcher
	for {
		w.look()
		if !t.pause(lookEvery) {
			return
		}
		if t.cfg.User.Busy() {
			continue
		}
		if w.rest != nil {
			w.rest()
		}
		w.running.Store(false)
		if !t.cfg.User.Busy() || !w.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// lookForMaster confirms all leases if there is another master.
func (t *Transport) lookForMaster() {
	w := &t.watcher
	master := t.servers()
	if master == w.master {
		return
	}
	first := w.master == "" // of a client that was made without a server
	w.master = master
	if first {
		return
	}
	t.cfg.Logger.Info("lockgen: another server is the master; what is held is asked about", "server", master)
	t.cfg.User.Recheck(nil)
	t.hub.Reconnect()
	w.notify()
}

// failedOver reports whether err, of a request, may be that of a connection that was closed because there is another
// master. It is not for long: then the client was closed by the program that made it.
func (t *Transport) failedOver(err error) bool {
	if !t.watcher.sentinel || !errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	at := int64(monotonic.Now())
	t.watcher.closing.CompareAndSwap(0, at)
	return time.Duration(at-t.watcher.closing.Load()) < t.cfg.OpTimeout
}
