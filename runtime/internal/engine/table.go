package engine

import (
	"hash/maphash"
	"iter"
)

// A Table has values that know their keys, each a pointer, by those keys. A client may have very many of them: a map of the language, which has
// the key besides the value, takes two to three times the memory.
//
// It is a hash table with open addressing and linear probing. A tag of one byte, beside each value, has some bits of the hash of its
// key, so that nearly no other value is looked at. Parts grow one by one, so that no call of a client with very many values waits until
// all of them have moved. The zero Table has no function for keys; NewTable makes one. The caller guards it.
type Table[K comparable, V any] struct {
	key   func(v V) K // the key of a value, which does not change
	seed  maphash.Seed
	parts []part[V] // made for the first value; a key is in the part that its hash names
	size  int
}

// A part has as many tags as places for values.
type part[V any] struct {
	tags   []uint8
	values []V
	live   int // values
	used   int // values, and places of removed ones
}

const (
	tableParts = 32 // a power of two
	leastRoom  = 8  // places of a part that has some
	smallRoom  = 32 // places of a part from which on memory matters more than time
	tableChurn = 8  // values of a part for one removed one, from which on values come and go
)

// The tags of places without a value; all others have tagged set.
const (
	neverUsed uint8 = 0
	removed   uint8 = 1
	tagged    uint8 = 0x80
)

// NewTable returns a table of values with the keys that key returns.
func NewTable[K comparable, V any](key func(v V) K) Table[K, V] {
	return Table[K, V]{key: key, seed: maphash.MakeSeed()}
}

// Size returns the number of values.
func (t *Table[K, V]) Size() int { return t.size }

// Get returns the value with a key, if there is one.
func (t *Table[K, V]) Get(k K) (v V, ok bool) {
	if t.size == 0 {
		return v, false
	}
	p, hash := t.of(k)
	if at := t.find(p, hash, k); at >= 0 {
		return p.values[at], true
	}
	return v, false
}

// Add adds v, with a key that no value has.
func (t *Table[K, V]) Add(v V) {
	t.begin()
	p, hash := t.of(t.key(v))
	t.addTo(p, hash, v)
}

// GetOrAdd returns the value with a key. If there is none, it adds the one that create makes.
func (t *Table[K, V]) GetOrAdd(k K, create func() V) V {
	t.begin()
	p, hash := t.of(k)
	if at := t.find(p, hash, k); at >= 0 {
		return p.values[at]
	}
	v := create()
	t.addTo(p, hash, v)
	return v
}

// begin makes the parts.
func (t *Table[K, V]) begin() {
	if t.parts == nil {
		t.parts = make([]part[V], tableParts)
	}
}

// addTo adds v to p, which does not have it.
func (t *Table[K, V]) addTo(p *part[V], hash uint64, v V) {
	if p.used+1 > len(p.tags)*7/8 {
		t.move(p)
	}
	p.add(hash, v)
	t.size++
}

// Remove removes the value with a key, and returns it, if there is one.
func (t *Table[K, V]) Remove(k K) (v V, ok bool) {
	if t.size == 0 {
		return v, false
	}
	p, hash := t.of(k)
	at := t.find(p, hash, k)
	if at < 0 {
		return v, false
	}
	var none V
	v = p.values[at]
	p.values[at], p.tags[at] = none, removed
	if p.tags[p.next(at)] == neverUsed { // no search goes on behind it
		p.tags[at] = neverUsed
		p.used--
	}
	t.size--
	if p.live--; p.live == 0 && len(p.tags) > leastRoom {
		*p = part[V]{}
	}
	return v, true
}

// All returns the values, in no order. The table does not change meanwhile.
func (t *Table[K, V]) All() iter.Seq[V] {
	return func(yield func(v V) bool) {
		for i := range t.parts {
			p := &t.parts[i]
			for at, tag := range p.tags {
				if tag >= tagged && !yield(p.values[at]) {
					return
				}
			}
		}
	}
}

// of returns the part that may have a key, and the hash of the key. There are parts.
func (t *Table[K, V]) of(k K) (p *part[V], hash uint64) {
	hash = maphash.Comparable(t.seed, k)
	return &t.parts[hash%tableParts], hash
}

// find returns the place of the value with a key, or -1.
func (t *Table[K, V]) find(p *part[V], hash uint64, k K) int {
	if len(p.tags) == 0 {
		return -1
	}
	at, tag := p.first(hash)
	for ; p.tags[at] != neverUsed; at = p.next(at) { // there is always a place that was never used
		if p.tags[at] == tag && t.key(p.values[at]) == k {
			return at
		}
	}
	return -1
}

// first returns the place where the search for a hash begins, and the tag of the hash.
func (p *part[V]) first(hash uint64) (at int, tag uint8) {
	return int(hash >> 32 * uint64(len(p.tags)) >> 32), tagged | uint8(hash>>5) // tableParts has the bits below
}

// next returns the place at which a search goes on after the place at.
func (p *part[V]) next(at int) int {
	if at++; at < len(p.tags) {
		return at
	}
	return 0
}

// add adds v, which p does not have, and has room for.
func (p *part[V]) add(hash uint64, v V) {
	at, tag := p.first(hash)
	for p.tags[at] >= tagged {
		at = p.next(at)
	}
	if p.tags[at] == neverUsed {
		p.used++
	}
	p.tags[at], p.values[at] = tag, v
	p.live++
}

// roomFor returns the room for so many values, with some to spare: a power of two, or three quarters of one, which leaves less of a large part
// unused. A small part has more to spare, or it would be moved again after a few changes.
func roomFor(values int) int {
	for room := leastRoom; ; room *= 2 {
		switch {
		case room < smallRoom && values <= room*5/8, room >= smallRoom && values <= room*3/4:
			return room
		case room >= smallRoom && values <= room*3/2*3/4:
			return room * 3 / 2
		}
	}
}

// move gives the values of p as much room as they need, with one more, and none to removed ones. Where many were removed, values come and go:
// there p gets more to spare, or it would be moved again after a few changes.
func (t *Table[K, V]) move(p *part[V]) {
	need := p.live + 1
	if p.used-p.live > p.live/tableChurn {
		need += p.live / 2
	}
	room := roomFor(need)
	old := *p
	*p = part[V]{tags: make([]uint8, room), values: make([]V, room)}
	for at, tag := range old.tags {
		if v := old.values[at]; tag >= tagged {
			p.add(maphash.Comparable(t.seed, t.key(v)), v)
		}
	}
}
