package main

import (
	"context"
	"fmt"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// lingering is lockgen's Mutex whose key stays with the process for a moment after an unlock.
const (
	lingering = "lockgen WithLinger"
	lingerFor = 20 * time.Millisecond
)

func openLingering(addr string, lease time.Duration) (*client, error) {
	c, err := lockrt.Open(context.Background(), "redis://"+addr, lockrt.Options{Watchdog: lease, Linger: lingerFor})
	if err != nil {
		return nil, err
	}
	return &client{lock: leases(func(key string) (*lockrt.Lease, error) { return c.Mutex(key).Lock(context.Background()) })}, nil
}

// sameKey makes one goroutine lock and unlock one key again and again.
func sameKey(ctx context.Context, e *env, lib library) (metrics, error) {
	return repeating(ctx, e, lib, order{Op: "one key", Keys: fresh()})
}

// afterwards measures how long a process waits for a key that another process has just unlocked, beside a PING. Both are
// sent after a pause.
func afterwards(ctx context.Context, e *env, lib library) (metrics, error) {
	first, neighbour, end, err := twoWorkers(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
	if err != nil {
		return nil, err
	}
	defer end()
	var waits, pings []float64
	for start := time.Now(); time.Since(start) < e.length || len(waits) < 10; {
		if time.Since(start) > e.length+answerWithin {
			return nil, fmt.Errorf("only %d keys lingered until the neighbour asked", len(waits))
		}
		key := fresh()
		for _, o := range []order{{Op: "lock", Keys: key}, {Op: "unlock"}} {
			if _, err := first.do(o); err != nil {
				return nil, err
			}
		}
		ping, err := pausedDo(ctx, neighbour, order{Op: "ping"})
		if err != nil {
			return nil, err
		}
		held, err := e.rc.Do(ctx, e.rc.B().Exists().Key(key).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		got, err := pausedDo(ctx, neighbour, order{Op: "lock", Keys: key})
		if err != nil {
			return nil, err
		}
		if _, err := neighbour.do(order{Op: "unlock"}); err != nil {
			return nil, err
		}
		if lib.lingers == (held == 1) { // else this key lingered too short on a busy machine
			waits, pings = append(waits, float64(got.Elapsed)), append(pings, float64(ping.Elapsed))
		}
	}
	m := metrics{"p50": quantile(waits, 0.5), "p99": quantile(waits, 0.99), "ping": quantile(pings, 0.5)}
	m["pings"] = m["p50"] / m["ping"]
	return m, nil
}

// pausedDo pauses, and then has the worker carry out o.
func pausedDo(ctx context.Context, p *process, o order) (answer, error) {
	if err := pause(ctx, time.Millisecond); err != nil {
		return answer{}, err
	}
	return p.do(o)
}

// furtherPings is by how many round trips a neighbour waits longer for a key that lingers than for one that does not.
func furtherPings(t *table) spread {
	us, other := t.scenario.us(), map[string]string{lingering: lockgen, passingLingers: passing}[t.scenario.us()]
	longer, plain, pings := t.values(us, "p50"), t.values(other, "p50"), t.values(us, "ping")
	var more []float64
	for i := range min(len(longer), len(plain)) {
		more = append(more, (longer[i]-plain[i])/pings[i])
	}
	return of(more)
}

func lingerScenarios() []*scenario {
	return []*scenario{{
		id: "S17", title: "One goroutine, one key again and again", of: lingering, fit: func(lib library) bool { return anybody(lib) || lib.lingers },
		how: fmt.Sprintf("All columns are for one cycle: a lock and an unlock. With WithLinger the key stays with the process for %v after an unlock, and each lock has a lease of its own.", lingerFor),
		run: sameKey, headline: headline{metric: "each", format: duration, lowest: true},
		columns: []column{{"each", "each", duration}, colFloor, colRate, colSent, colAllocs, colBytes},
		goals: []goal{
			{"at least 50x the floor's cycles", ofFloor("rate"), 50, true, times},
			{"at most 400 ns", value("each"), 400, false, duration},
			{"no command", value("sent"), 0.001, false, small},
			{"ahead of every other library", ofBest("rate"), 1, true, times},
		},
	}, {
		id: "S17", point: "neighbour", title: "Another process wants the key that has just been unlocked; in short: with WithLinger", of: lingering,
		how: passingLingers + " and " + passing + ": nothing but the scripts and the messages that this takes. For a key that lingers the neighbour's request makes a message, that the process with the key sends a request, and that one a message to the neighbour.",
		fit: func(lib library) bool { return lib.name == lockgen || lib.lingers }, floors: []string{passing, passingLingers},
		run: afterwards, headline: headline{metric: "p50", format: duration, lowest: true},
		columns: []column{{"its wait: p50", "p50", duration}, colP99, {"PING", "ping", duration}, {"median, PINGs", "pings", hundredth}},
		goals: []goal{
			{"it waits at most one PING longer than without WithLinger", furtherPings, 1, false, hundredth},
		},
	}}
}
