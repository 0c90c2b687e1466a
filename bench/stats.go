package main

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// jain is Jain's fairness index: 1 if all have the same, 1/n if one of n has it all, 0 if none has anything.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// A spread sums up several rounds.
type spread struct{ median, low, high float64 }

// of returns the spread of values; NaN was not measured and does not count. Of an even number of values the median lies
// between the two in the middle.
func of(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + median) / 2
	}
	return spread{median, values[0], values[len(values)-1]}
}

// shouldBeZero are the metrics of which each is a failure.
var shouldBeZero = []string{"never", "stuck", "failed", "lost", "forgotten", "missing"}

// medians returns the median of each metric, and the sum of those that should be 0: a median could hide a failure.
func medians(all []metrics) metrics {
	m := metrics{}
	for name := range all[0] {
		var values []float64
		for _, one := range all {
			values = append(values, one[name])
		}
		m[name] = of(values).median
	}
	for _, name := range shouldBeZero {
		m[name] = 0
		for _, one := range all {
			m[name] += one[name]
		}
	}
	return m
}

// A histogram counts durations in buckets that are 1/32 of their value wide.
type histogram [bucketsOf]uint32

const (
	fine      = 5                        // bits that a bucket distinguishes
	longest   = 38                       // bits: more than two minutes
	bucketsOf = (longest - fine) << fine // the last bucket counts everything that is longer
)

func (h *histogram) add(d time.Duration) {
	v := uint64(max(0, d))
	i := v
	if v>>fine > 0 {
		shift := bits.Len64(v) - fine - 1
		i = uint64(shift)<<fine + v>>shift
	}
	h[min(i, bucketsOf-1)]++
}

// merge adds the counts of o.
func (h *histogram) merge(o *histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// quantile returns the longest duration of the share q, in nanoseconds, to the middle of the bucket; NaN if nothing was
// counted.
func (h *histogram) quantile(q float64) float64 {
	var total uint64
	for _, n := range h {
		total += uint64(n)
	}
	if total == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(total)))
	var seen uint64
	for i, n := range h {
		seen += uint64(n)
		if seen >= max(rank, 1) {
			if i>>fine < 2 {
				return float64(i)
			}
			shift := i>>fine - 1
			return (float64(i-shift<<fine) + 0.5) * float64(uint64(1)<<shift)
		}
	}
	panic("unreachable: some bucket has the last one")
}

// quantile returns the smallest of values that is no smaller than the share q of them.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	values = slices.Sorted(slices.Values(values))
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
