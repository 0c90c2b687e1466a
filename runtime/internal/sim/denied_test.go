package sim

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A denial is a script that a server did not run to its end for a process, for want of a permission.
type denial struct {
	at      time.Duration
	process int
	script  string
	args    []string // its keys, and then its arguments
	said    string   // the error of the server
}

// denialOf returns the denial that an event is, if it is one. e is nil if time has passed and nothing else.
func denialOf(e *event) (d denial, ok bool) {
	if e == nil || !strings.HasPrefix(e.reply, "-NOPERM ") || !strings.EqualFold(e.cmd[0], "evalsha") {
		return denial{}, false
	}
	said := strings.TrimSuffix(strings.TrimPrefix(e.reply, "-"), "\r\n")
	return denial{at: e.at, process: e.process, script: names[e.cmd[1]], args: e.cmd[3:], said: said}, true
}

// The arguments of rw_read.lua: the lock, and the hold of the same caller, which lets it read ahead of all waiters.
const (
	readLock  = 0
	readUnder = 7
)

// deniesEntry reports whether a missing permission explains the error of a call that has entered the lease of c again since a time. Only a
// reader whose hold ends by itself asks a server then. The request names that hold, and the error is the one with which the server
// has answered this request.
func (v *watch) deniesEntry(c *call, under string, since time.Duration, err error) bool {
	said := (*rueidis.RedisError)(nil)
	if under == "" || !errors.As(err, &said) {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range v.denials {
		if d.at >= since && d.process == c.p.id && d.script == "rw_read" && d.args[readLock] == c.keys[0] && d.args[readUnder] == under && d.said == said.Error() {
			return true
		}
	}
	return false
}

// ownerOf returns the owner that the server has for the lease of a reader, or nothing for another lease.
func ownerOf(c *call, l held) string {
	lease, ok := l.(*lockrt.Lease)
	if !ok || c.kind != "read" {
		return ""
	}
	return (*leases.Lease)(lease).Core().Guard().Owner()
}

// TestEnterDenied has a reader whose hold ends by itself enter again while a permission is missing. The world takes the error, which the
// server has given to this request, and no other one.
func TestEnterDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, rw.name)
		w.plan = &plan{kind: rw, servers: 1, processes: 1, keys: 1, watchdog: 30 * time.Second, latency: 100 * time.Microsecond}
		w.plan.options = lockrt.Options{Tracking: lockrt.TrackingOff}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.stop = cancel
		p := w.enlist(ctx)
		p.connect(w.servers[0])
		p.uuid = p.cs[0].ID()
		g := &worker{p: p, rng: w.random("worker")}
		m := p.cs[0].RWMutex("key0").RLocker()
		c := &call{p: p, keys: []string{"key0"}, kind: "read", units: 1, most: 20 * time.Second}
		w.watch.called(c)
		l, err := lease(m.Lock(ctx, lockrt.WithMaxHold(c.most)))
		require.NoError(t, err)
		w.watch.granted(c, l)

		time.Sleep(time.Second)
		began := w.watch.now()
		w.act(began, func(w *world) { w.servers[0].refusals["noperm middle"] = w.servers[0].deniesExpiry })
		var denied error
		a := acquisition{enter: func(ctx context.Context) (held, error) {
			inner, err := lease(m.Lock(ctx))
			denied = err
			return inner, err
		}}
		require.False(t, g.again(c, l, a))
		require.ErrorContains(t, denied, "NOPERM")
		require.Empty(t, w.failures, "the fault explains the error")

		w.watch.mu.Lock()
		require.Len(t, w.watch.denials, 1)
		it := w.watch.denials[0]
		w.watch.mu.Unlock()
		other := *c
		other.p = &process{id: p.id + 1}
		under := ownerOf(c, l)
		require.True(t, w.watch.deniesEntry(c, under, began, denied))
		for name, explained := range map[string]bool{
			"before the call":           w.watch.deniesEntry(c, under, it.at+1, denied),
			"an error of no server":     w.watch.deniesEntry(c, under, began, errors.New(denied.Error())),
			"of another process":        w.watch.deniesEntry(&other, under, began, denied),
			"of another key":            w.watch.deniesEntry(&call{p: p, keys: []string{"key1"}, kind: "read"}, under, began, denied),
			"of a writer":               w.watch.deniesEntry(c, ownerOf(&call{p: p, keys: c.keys, kind: "write"}, l), began, denied),
			"under another lease":       w.watch.deniesEntry(c, under+"0", began, denied),
			"of a reader that has none": w.watch.deniesEntry(c, "", began, denied),
		} {
			require.False(t, explained, name)
		}
		for name, change := range map[string]func(d *denial){
			"another answer": func(d *denial) { d.said += "." },
			"another script": func(d *denial) { d.script = "rw_write" },
		} {
			d := it
			change(&d)
			w.watch.mu.Lock()
			w.watch.denials = []denial{d}
			w.watch.mu.Unlock()
			require.False(t, w.watch.deniesEntry(c, under, began, denied), name)
		}

		w.act(w.watch.now(), (*world).heal)
		require.False(t, g.again(c, l, acquisition{enter: func(context.Context) (held, error) { return nil, denied }}))
		require.Len(t, w.failures, 1)
		require.Contains(t, w.failures[0], "entering again: ")
		w.failures = nil
		w.watch.ending(c)
		require.NoError(t, l.Unlock(t.Context()))
		w.watch.ended(c, nil)
		cancel()
		w.end()
		require.Empty(t, w.failures)
	})
	runtime.GC() // the content of pools belongs to the bubble that made it
	runtime.GC()
}
