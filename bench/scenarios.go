package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A result is what one library did in one run.
type result struct {
	rate    float64       // acquisitions per second
	jain    float64       // fairness over the goroutines: 1 is perfect, 1/n is one of them having it all
	longest time.Duration // wait
}

type scenarioOf struct {
	name      string
	clients   int // each as a process of its own
	each      int // goroutines of each client
	contended bool
}

var scenarios = []scenarioOf{
	{name: "alone: 1 goroutine", clients: 1, each: 1},
	{name: "alone: 16 goroutines, each with a key of its own", clients: 1, each: 16},
	{name: "alone: 256 goroutines, each with a key of its own", clients: 1, each: 256},
	{name: "one key: 16 goroutines of one process", clients: 1, each: 16, contended: true},
	{name: "one key: 100 goroutines of one process", clients: 1, each: 100, contended: true},
	{name: "one key: 4 clients of 8 goroutines", clients: 4, each: 8, contended: true},
	{name: "one key: 2 clients of 1 goroutine, handing over", clients: 2, each: 1, contended: true},
}

var keys atomic.Int64

// run has all goroutines lock and unlock for as long as length.
func (s scenarioOf) run(ctx context.Context, lib library, addr string, length time.Duration) (result, error) {
	var locks []lock
	for range s.clients {
		l, closes, err := lib.open(addr)
		if err != nil {
			return result{}, err
		}
		defer closes()
		locks = append(locks, l)
	}
	base := fmt.Sprintf("bench:%d", keys.Add(1))
	ctx, cancel := context.WithTimeout(ctx, length+30*time.Second) // for one who is starved
	defer cancel()
	end := time.Now().Add(length)
	n := s.clients * s.each
	counts, longest, errs := make([]float64, n), make([]time.Duration, n), make([]error, n)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range n {
		key := base
		if !s.contended {
			key = fmt.Sprintf("%s:%d", base, g)
		}
		wg.Go(func() {
			for {
				began := time.Now()
				if !began.Before(end) {
					return
				}
				unlock, err := locks[g%s.clients](ctx, key)
				if err == nil {
					longest[g] = max(longest[g], time.Since(began))
					err = unlock()
				}
				if err != nil {
					errs[g] = err
					return
				}
				counts[g]++
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return result{}, err
	}
	var r result
	var sum, squares float64
	for g := range n {
		sum += counts[g]
		squares += counts[g] * counts[g]
		r.longest = max(r.longest, longest[g])
	}
	r.rate = sum / took.Seconds()
	if squares > 0 {
		r.jain = sum * sum / (float64(n) * squares)
	}
	return r, nil
}
