package engine

import (
	"slices"
	"sync"
)

// A Recent has the most recent keys.
type Recent struct {
	mu   sync.Mutex
	keys []string // the last one at the end
}

// mostRecent is how many keys a recent has at most.
const mostRecent = 256

// Note makes key the most recent one, instead of the oldest if there are too many.
func (r *Recent) Note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.keys, key); i >= 0 {
		r.keys = slices.Delete(r.keys, i, i+1)
	} else if len(r.keys) == mostRecent {
		r.keys = slices.Delete(r.keys, 0, 1)
	}
	r.keys = append(r.keys, key)
}

// All returns the keys, the most recent one last.
func (r *Recent) All() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}
