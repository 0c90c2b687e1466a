package diag

import (
	"strings"
)

// Suggest returns "; did you mean x?" for the candidate nearest to name, or nothing if none is near.
func Suggest(name string, candidates []string) string {
	if best := Nearest(name, candidates); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Nearest returns the candidate that at most two edits separate from name, case aside, the nearest of several, or "".
func Nearest(name string, candidates []string) string {
	// Two edits turn any two letters into any other two: short names have to be nearer.
	limit := min(2, len(name)/2)
	best, bestAt := "", limit+1
	for _, c := range candidates {
		if strings.EqualFold(c, name) {
			return c
		}
		if d := Distance(strings.ToLower(name), strings.ToLower(c)); d < bestAt {
			best, bestAt = c, d
		}
	}
	return best
}

// Distance is the number of inserted, deleted, replaced and swapped letters between a and b.
func Distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, prev, cur := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range s {
		cur[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				cur[j+1] = min(cur[j+1], before[j-1]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(t)]
}
