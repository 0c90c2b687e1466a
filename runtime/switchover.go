package lockrt

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A lookout is what looks, while anything is held or waited for, whether other servers have it than before.
//
// Where there are sentinels, they decide that another server is the master, and rueidis follows without a word. The new one
// may miss the last writes, so what is held is asked about at once, and who waits stands in line there and listens there.
//
// The connections to the old one tell nothing: it may be stopped, or go on as a master for some seconds. So it is looked
// for another address, which costs no request. For a cluster see takeovers.
type lookout struct {
	needed  bool   // there are sentinels
	look    func() // nil if there is nothing to look for
	rest    func() // nothing is held or waited for; may be nil
	running atomic.Bool
	master  string       // guarded by running
	closing atomic.Int64 // since when requests fail because their connection is closed, a monotonic.Time; 0 if they do not

	mu      sync.Mutex
	waiting map[*func()]struct{} // called when there is another master
}

// sentinelUser returns the user and the password that a URL names for sentinels.
func sentinelUser(text string) (name, password string) {
	u, err := url.Parse(text)
	if err != nil {
		return "", "" // rueidis has said so
	}
	return u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
}

// onSwitch has f called when there is another master, until stop is called.
func (l *lookout) onSwitch(f func()) (stop func()) {
	if !l.needed {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[*func()]struct{}{}
	}
	l.waiting[&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, &f)
	}
}

// told calls those who wait for another master.
func (l *lookout) told() {
	l.mu.Lock()
	waiting := slices.Collect(maps.Keys(l.waiting))
	l.mu.Unlock()
	for _, f := range waiting {
		(*f)()
	}
}

// lookEvery is how often it is looked.
const lookEvery = 10 * time.Millisecond

// errSwitched is the outcome of a request that was under way when the server was replaced.
var errSwitched = errors.New("the connection was given up, for one to another master")

// lookOut begins to look, until nothing is held or waited for. It does not block.
func (c *Client) lookOut() {
	if c.lookout.look != nil && c.lookout.running.CompareAndSwap(false, true) {
		c.spawn(c.keepLooking)
	}
}

func (c *Client) keepLooking() {
	l := &c.lookout
	for {
		l.look()
		if !c.pause(lookEvery) {
			return
		}
		if c.holding() || c.counts.waiting.Load() > 0 {
			continue
		}
		if l.rest != nil {
			l.rest()
		}
		l.running.Store(false)
		if !c.holding() && c.counts.waiting.Load() == 0 || !l.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// lookForMaster has all that is held asked about if there is another master.
func (c *Client) lookForMaster() {
	l := &c.lookout
	master := c.nodes()
	if master == l.master {
		return
	}
	first := l.master == "" // of a client that was made without a server
	l.master = master
	if first {
		return
	}
	c.opts.Logger.Info("lockgen: another server is the master; what is held is asked about", "server", master)
	c.watchdog.Recheck()
	c.hub.Reconnect()
	l.told()
}

// switched reports whether err, of a request, may be that of a connection that was closed because there is another
// master. It is not for long: then the client was closed by whoever made it.
func (c *Client) switched(err error) bool {
	if !c.lookout.needed || !errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	at := int64(monotonic.Now())
	c.lookout.closing.CompareAndSwap(0, at)
	return time.Duration(at-c.lookout.closing.Load()) < c.opts.OpTimeout
}
