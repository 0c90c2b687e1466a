//go:build linux

package chaos

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// left looks at what is left on the server, until over comes: by then the last lease has had the time to expire. The places that a server
// has because it came back with older data stay until the next caller releases their lock, so left has one more process lock each key.
func (a *arena) left(f *findings, over <-chan time.Time) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		keys, err := a.leftovers()
		switch {
		case err == nil && len(keys) == 0:
			return
		case err == nil && a.row.reverts && arePlaces(keys):
			if err := a.visit(); err != nil {
				f.violate("the places that were left on the server keep a caller from its lock: %v %v", keys, err)
				return
			}
			if keys, err = a.leftovers(); err != nil || len(keys) > 0 {
				f.violate("left on the server by a caller that came after the run: %v %v", keys, err)
			}
			return
		}
		select {
		case <-poll.C:
		case <-over:
			f.violate("left on the server: %v %v", keys, err)
			return
		}
	}
}

// arePlaces reports whether keys are wait queues, and what belongs to these, and no locks.
func arePlaces(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		return !slices.ContainsFunc([]string{"lockgen_waiting:", "lockgen_fair:", "redisson_lock_queue:", "redisson_lock_timeout:"}, func(prefix string) bool {
			return strings.HasPrefix(key, prefix)
		})
	})
}

// visit locks and unlocks each key from one more process.
func (a *arena) visit() error {
	client, err := lockrt.Open(context.Background(), a.urls()[0], lockrt.Options{Watchdog: a.lease})
	if err != nil {
		return err
	}
	l := a.of.open(&worker{}, client)
	for _, key := range append([]string{longKey, sharedKey}, briefKeys...) {
		ctx, over := context.WithTimeout(context.Background(), opTimeout)
		lease, err := l(ctx, key, a.of.room)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		over()
		if err != nil {
			return errors.Join(err, client.Close())
		}
	}
	return client.Close()
}

// leftovers returns keys and channels that nobody needs any more.
func (a *arena) leftovers() ([]string, error) {
	var left []string
	for _, server := range a.servers() {
		for _, cmd := range [][]string{{"KEYS", "*"}, {"PUBSUB", "CHANNELS"}} {
			reply, err := server.Try(cmd...)
			if err != nil {
				return left, err
			}
			names, err := reply.AsStrSlice()
			if err != nil {
				return left, err
			}
			for _, name := range names {
				if cmd[0] == "KEYS" && strings.HasPrefix(name, "lockgen_process:") {
					continue // the description of a process stays for a while longer
				}
				if name != redistest.SentinelChannel && !a.of.stays(server, name) && !a.outlived(server, name) {
					if reply, err := server.Try("GET", name); err == nil { // a hash is none that GET reads
						if text, err := reply.ToString(); err == nil {
							name += "=" + strconv.Quote(text)
						}
					}
					left = append(left, name)
				}
			}
		}
	}
	return left, nil
}

// TestLeft shows which places of processes that have ended may be left: those that the next caller removes, on a server that came back with
// older data. A lock that does not expire may not.
func TestLeft(t *testing.T) {
	t.Parallel()
	const gone = "00000000-0000-8000-8000-000000000001:"
	for name, tt := range map[string]struct {
		reverts bool
		lock    bool
		want    string // part of the one violation; empty for none
	}{
		"older data":            {reverts: true},
		"older data and a lock": {reverts: true, lock: true, want: "left on the server: [l"},
		"the data of the run":   {want: "left on the server: [lockgen_waiting:{long}]"},
	} {
		for _, of := range []*primitive{mutex, fair} {
			t.Run(of.name+", "+name, func(t *testing.T) {
				t.Parallel()
				a := &arena{t: t, row: row{reverts: tt.reverts}, of: of, lease: time.Second, server: redistest.Server(t)}
				stand := func(owner string) { a.server.Do("RPUSH", "lockgen_waiting:{long}", owner) }
				if of == fair {
					stand = func(owner string) {
						a.server.Do("RPUSH", "redisson_lock_queue:{long}", owner)
						a.server.Do("ZADD", "redisson_lock_timeout:{long}", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), owner)
						a.server.Do("HSET", "lockgen_fair:{long}", owner, "300000 100 0 0")
					}
				}
				stand(gone + "1")
				stand(gone + "2")
				if tt.lock {
					a.server.Do("HSET", longKey, gone+"3", "1")
				}
				f := &findings{}
				a.left(f, time.After(0))
				if tt.want == "" {
					require.Empty(t, f.violations)
					return
				}
				want := tt.want
				if of == fair {
					want = "left on the server: ["
				}
				require.Len(t, f.violations, 1)
				require.Contains(t, f.violations[0], want)
			})
		}
	}
}
