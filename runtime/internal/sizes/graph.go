package main

import (
	"maps"
	"slices"
)

// A graph says which files need which.
type graph map[string]map[string]bool

// up returns how many edges lead up in the order of Eades, Lin and Smyth ("A fast and effective heuristic for the feedback arc
// set problem", 1993): files that need no other go to the bottom, files that no other needs go to the top, and of the rest
// the one that needs most and is needed least.
func (g graph) up() int {
	left := slices.Sorted(maps.Keys(g))
	var top, bottom []string
	degree := func(name string) (out, in int) {
		for _, other := range left {
			if g[name][other] {
				out++
			}
			if g[other][name] {
				in++
			}
		}
		return out, in
	}
	for len(left) > 0 {
		best, most, sink := 0, -len(g), false
		for i, name := range left {
			out, in := degree(name)
			if out == 0 {
				best, sink = i, true
				break
			}
			if in == 0 {
				out += len(g)
			}
			if out-in > most {
				best, most = i, out-in
			}
		}
		if sink {
			bottom = append(bottom, left[best])
		} else {
			top = append(top, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(bottom)
	floor := map[string]int{}
	for i, name := range append(top, bottom...) {
		floor[name] = i
	}
	n := 0
	for from, needs := range g {
		for to := range needs {
			if floor[to] < floor[from] {
				n++
			}
		}
	}
	return n
}

// cycle returns the most files that all need each other.
func (g graph) cycle() int {
	reached := map[string]map[string]bool{}
	var reach func(from, at string)
	reach = func(from, at string) {
		for to := range g[at] {
			if !reached[from][to] {
				reached[from][to] = true
				reach(from, to)
			}
		}
	}
	for name := range g {
		reached[name] = map[string]bool{name: true}
		reach(name, name)
	}
	most := 0
	for name := range g {
		n := 0
		for other := range reached[name] {
			if reached[other][name] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
