// Command bench runs lockgen beside the other distributed locks for Go on Redis, on the same server, in
// turns, and prints medians.
//
//	go run . [-rounds 5] [-time 1s] [-only floor,lockgen] [-scenario alone]
//
// It uses the server of REDIS_URL, or starts the redis-server that it finds. Figures of different runs do
// not compare: machines are noisy. Those of one run do, since the libraries take turns in each round.
//
// floor is not a lock: two calls of the smallest scripts that a lock in this layout needs, and nothing
// around them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each library runs each scenario")
	length := flag.Duration("time", time.Second, "how long one run takes")
	only := flag.String("only", "", "comma-separated names of libraries; all if empty")
	scenario := flag.String("scenario", "", "run only scenarios whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *length, *only, *scenario); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, length time.Duration, only, scenario string) error {
	addr, stop, err := server(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, s := range scenarios {
		if !strings.Contains(s.name, scenario) {
			continue
		}
		results := map[string][]result{}
		var names []string
		for range rounds {
			for _, lib := range libraries {
				if only != "" && !slices.Contains(strings.Split(only, ","), lib.name) || s.contended && lib.floor {
					continue
				}
				if !slices.Contains(names, lib.name) {
					names = append(names, lib.name)
				}
				r, err := s.run(ctx, lib, addr, length)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					return fmt.Errorf("%s: %s: %w", s.name, lib.name, err)
				}
				results[lib.name] = append(results[lib.name], r)
			}
		}
		report(s, names, results)
	}
	return nil
}

// report prints the medians of one scenario.
func report(s scenarioOf, names []string, results map[string][]result) {
	fmt.Printf("\n%s\n%-24s %12s %10s %16s", s.name, "", "per second", "of first", "spread")
	if s.contended {
		fmt.Printf(" %8s %12s", "Jain", "longest wait")
	}
	fmt.Println()
	var first float64
	for _, name := range names {
		var rates, fairness []float64
		var waits []time.Duration
		for _, r := range results[name] {
			rates = append(rates, r.rate)
			fairness = append(fairness, r.jain)
			waits = append(waits, r.longest)
		}
		slices.Sort(rates)
		slices.Sort(fairness)
		slices.Sort(waits)
		rate := rates[len(rates)/2]
		if first == 0 {
			first = rate
		}
		fmt.Printf("%-24s %12.0f %9.2fx %7.0f-%-8.0f", name, rate, rate/first, rates[0], rates[len(rates)-1])
		if s.contended {
			fmt.Printf(" %8.2f %12v", fairness[len(fairness)/2], waits[len(waits)/2].Round(10*time.Microsecond))
		}
		fmt.Println()
	}
}
