package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// These say how busy a busy process is, and how far a far server.
const (
	otherWork = 40                     // goroutines that compute
	workPiece = 100 * time.Microsecond // how long each of them computes before the others have their turn
	distance  = time.Millisecond       // how much longer a round trip to a far server takes
)

const howEveryday = howAlone + " Busy: 40 other goroutines of the process compute, 100 µs each before the others have their turn, so that no processor is ever idle: there Go learns of an answer only every 10 ms, which is how often a busy program looks for what its connections have received. Far: a round trip takes 1 ms longer." + howPromised + " " + straight + ": as " + promising + ", but callers share no scripts."

// everydayScenarios are those of a program that locks now and then and does something else besides.
func everydayScenarios() []*scenario {
	var all []*scenario
	add := func(name string, g int, title string, run func(p party) func(context.Context, *env, library) (metrics, error), least float64) {
		all = append(all, &scenario{
			id: "S20", point: fmt.Sprintf("%s%d", name, g), title: fmt.Sprintf("%s%d goroutines, keys that nobody else wants", title, g), how: howEveryday, fit: anybody,
			floors: []string{promising, straight},
			run:    run(party{goroutines: g}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least " + tenth(least) + " of the floor's cycles", ofFloor("rate"), least, true, hundredth},
				{"nobody hangs", worst("stuck"), 0, false, count},
			},
		})
	}
	alone := func(p party) func(context.Context, *env, library) (metrics, error) { return cycles(p) }
	for _, g := range []int{4, 8} {
		add("", g, "", alone, 0.8)
	}
	for _, g := range []int{16, 64, 256} {
		add("busy ", g, "Busy processors: ", busily, 0.9)
	}
	for _, g := range []int{8, 64, 256} {
		add("far ", g, "A far server: ", farAway, 0.9)
	}
	return all
}

// busily makes a process lock and unlock whose processors are never idle.
func busily(p party) func(context.Context, *env, library) (metrics, error) {
	p.busy = otherWork
	return cycles(p)
}

// farAway makes a process lock and unlock whose server is far.
func farAway(p party) func(context.Context, *env, library) (metrics, error) {
	run := cycles(p)
	return func(ctx context.Context, e *env, lib library) (metrics, error) {
		way, err := newDelay(e.addr)
		if err != nil {
			return nil, err
		}
		defer way.close()
		way.each.Store(int64(distance / 2))
		far := *e
		far.servers = way.addr()
		return run(ctx, &far, lib)
	}
}

// compute keeps goroutines computing until end is called.
func compute(goroutines int) (end func()) {
	over := make(chan struct{})
	for range goroutines {
		go func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				for start := time.Now(); time.Since(start) < workPiece; {
				}
				runtime.Gosched()
			}
		}()
	}
	return func() { close(over) }
}
