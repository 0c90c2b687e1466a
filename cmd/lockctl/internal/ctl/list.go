package ctl

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/internal/survey"
)

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A Listing is the output of list as JSON.
type Listing struct {
	Version int      `json:"version"`
	At      string   `json:"at"`
	Locks   []*Lock  `json:"locks"`
	Silent  []string `json:"silent,omitempty"`  // ids of processes that did not answer
	Mute    []string `json:"mute,omitempty"`    // addresses of servers that did not answer
	Omitted int      `json:"omitted,omitempty"` // locks and calls that processes did not name
	Swept   int      `json:"swept,omitempty"`   // keys that a sweep has read
	Partial bool     `json:"partial,omitempty"` // the sweep did not finish
}

func list(ctx context.Context, o *options) int {
	if o.scan && o.rate < 1 {
		return o.fail(exitUsage, fmt.Errorf("-rate %d is less than 1", o.rate))
	}
	return o.with(ctx, func(bounded context.Context) (int, error) {
		l, err := o.listing(bounded)
		if err != nil {
			return 0, err
		}
		if o.scan { // has no time limit
			if err := o.sweep(ctx, l); err != nil {
				return 0, err
			}
		}
		if o.json {
			o.print(l)
			return exitOK, nil
		}
		o.show(l)
		return exitOK, nil
	})
}

func (o *options) pattern() string {
	if len(o.args) > 0 {
		return survey.KeyOf(o.args[0])
	}
	return ""
}

func (o *options) listing(ctx context.Context) (*Listing, error) {
	w, err := o.survey(ctx, "")
	if err != nil {
		return nil, err
	}
	l := &Listing{Version: JSONVersion, At: w.At.UTC().Format(time.RFC3339Nano), Locks: w.Sorted(o.pattern()), Silent: w.Silent, Mute: w.Mute, Omitted: w.Omitted}
	if l.Locks == nil {
		l.Locks = []*Lock{}
	}
	return l, nil
}

// show prints a listing for people.
func (o *options) show(l *Listing) {
	now := time.Now()
	rows := [][]string{{"KEY", "KIND", "HELD", "LEFT", "HOLDER", "NAME", "WAITING"}}
	nobody := "nobody"
	if len(l.Mute) > 0 {
		nobody = "?" // its server may be the one
	}
	for _, lock := range l.Locks {
		waiting := "-"
		if n := len(lock.Waiters); n > 0 {
			waiting = itoa(n) + ", " + since(lock.Waiters[0].Since, now)
		}
		row := []string{quoted(lock.Key), lock.Kind, "-", "-", nobody, "", waiting}
		if lock.Many > 0 {
			row[4] = itoa(lock.Many) + " owners"
		} else if len(lock.Holders) == 0 && lock.Others.Permits > 0 {
			row[4] = "?" // show says whose the permits are
		} else if len(lock.Holders) > 0 {
			h := lock.Holders[0]
			who := h.String()
			if h.Gone {
				who += " (gone)"
			}
			if n := len(lock.Holders) - 1; n > 0 {
				who += " and " + itoa(n) + " more"
			}
			row = []string{quoted(lock.Key), lock.Kind, since(h.Since, now), left(h.LeftMS), who, h.Name, waiting}
			if h.Lingers {
				row[2] = "lingers"
			}
		}
		rows = append(rows, row)
	}
	switch {
	case len(l.Locks) > 0:
		table(o.Stdout, o.Colour, rows)
	case o.pattern() != "":
		fmt.Fprintf(o.Stdout, "No lock that is held or wanted matches %s.\n", quoted(o.pattern()))
	default:
		fmt.Fprintln(o.Stdout, "No lock is held or wanted.")
	}
	o.tellSilent(l.Silent, "")
	o.tellMute(l.Mute)
	o.tellOmitted(l.Omitted, "; lockctl list -scan finds the locks")
	if l.Partial {
		fmt.Fprintln(o.Stderr, "The sweep did not come to its end.")
	}
}

func left(ms int64) string {
	if ms < 0 {
		return "ever"
	}
	const most = math.MaxInt64 / int64(time.Millisecond) // 292 years; a Java program can have a lock for longer
	return short(time.Duration(min(ms, most)) * time.Millisecond)
}

// ends says when a lease or a key ends.
func ends(ms int64) string {
	if ms < 0 {
		return "does not end"
	}
	return "ends in " + left(ms)
}

// sweepStep is how many keys one command of a sweep reads: so few that it blocks the server for less than a
// millisecond.
const sweepStep = 250

// sweep adds the locks in the keyspace that no process reports.
func (o *options) sweep(ctx context.Context, l *Listing) error {
	known := map[string]bool{}
	for _, lock := range l.Locks {
		known[lock.Key] = true
	}
	w := survey.New()
	w.Mute = l.Mute
	swept, missed := false, error(nil) // whether a server has answered to the end, and the error of one that has not
	began := time.Now()
	asked := 0 // for how many keys the commands have asked
nodes:
	for _, addr := range sortedKeys(o.rc.Nodes()) {
		node := o.rc.Nodes()[addr]
		if node == nil {
			continue
		}
		replica, size, before, seen := false, int64(0), l.Swept, 0
		err := o.inTime(ctx, func(ctx context.Context) (err error) {
			replica = isReplica(ctx, node)
			size, err = node.Do(ctx, node.B().Dbsize().Build()).AsInt64()
			return err
		})
		switch {
		case l.misses(ctx, addr, err):
			missed = err
			continue
		case err != nil:
			return err
		case replica:
			continue
		}
		for cursor := uint64(0); ; {
			step := min(sweepStep, o.rate)
			err := o.inTime(ctx, func(ctx context.Context) error {
				entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Count(int64(step)).Type("hash").Build()).AsScanEntry()
				if err != nil {
					return err
				}
				var fresh []string
				for _, key := range entry.Elements {
					if !known[key] && survey.Matches(o.pattern(), key) && !companion(key) {
						known[key] = true
						fresh = append(fresh, key)
					}
				}
				cursor = entry.Cursor
				return w.Read(ctx, o.c, fresh)
			})
			if l.misses(ctx, addr, err) {
				missed = err
				continue nodes
			}
			if err != nil {
				return err
			}
			asked += step
			if seen = min(seen+step, int(size)); cursor == 0 {
				seen = int(size)
			}
			l.Swept = before + seen
			if o.Colour {
				fmt.Fprintf(o.Stderr, "\r%d of %d keys of %s\x1b[K", seen, size, addr)
			}
			if cursor == 0 {
				break
			}
			due := began.Add(time.Duration(asked) * time.Second / time.Duration(o.rate))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				l.Partial = true
				return nil
			}
		}
		if o.Colour {
			fmt.Fprint(o.Stderr, "\r\x1b[K")
		}
		swept = true
	}
	if !swept && missed != nil {
		return missed
	}
	l.Locks = append(l.Locks, w.Sorted("")...)
	if len(w.Locks) == 0 {
		return nil
	}
	// A process that has left out locks, or was started during the sweep, is not gone.
	return o.inTime(ctx, func(ctx context.Context) error {
		later, err := o.survey(ctx, "")
		if _, said := rueidis.IsRedisErr(err); err != nil && said {
			return err
		}
		if err != nil { // nobody knows which processes are gone
			later = &survey.World{Mute: sortedKeys(o.rc.Nodes())}
		}
		w.Meet(later)
		l.Silent, l.Mute = union(l.Silent, later.Silent), union(l.Mute, later.Mute)
		return nil
	})
}

// misses reports whether a server has not answered a sweep, which err tells. The listing names the server, and is not whole.
func (l *Listing) misses(ctx context.Context, addr string, err error) bool {
	if _, said := rueidis.IsRedisErr(err); err == nil || said || ctx.Err() != nil {
		return false
	}
	l.Mute, l.Partial = union(l.Mute, []string{addr}), true
	return true
}

// union returns the elements of both, sorted.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// inTime calls f with the time limit of -timeout.
func (o *options) inTime(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return f(ctx)
}

// companion reports whether a hash is a companion of a lock, or describes a process.
func companion(key string) bool {
	return strings.HasPrefix(key, "lockgen_process:") || strings.HasPrefix(key, "lockgen_fair:")
}

func isReplica(ctx context.Context, node rueidis.Client) bool {
	info, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
	return err == nil && strings.Contains(info, "role:slave")
}
