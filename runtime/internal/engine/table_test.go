package engine

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

type keyed struct{ key, content int }

// TestTable compares a table with a map, under calls in random order: with few keys, which come back, and with many.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 3, 100, 20_000} {
		table, model := NewTable(func(v *keyed) int { return v.key }), map[int]*keyed{}
		check := func() {
			t.Helper()
			require.Equal(t, len(model), table.Size())
			all := map[int]*keyed{}
			for v := range table.All() {
				require.Nil(t, all[v.key], "twice")
				all[v.key] = v
			}
			require.Equal(t, model, all)
		}
		check()
		for _, likely := range []int{9, 5, 1, 5, 0} { // it grows, stays, shrinks, stays, and gets empty
			for i := range 5 * keys {
				key := rand.IntN(keys)
				switch {
				case rand.IntN(10) < likely:
					v := &keyed{key, i}
					if model[key] == nil {
						model[key] = v
						if rand.IntN(2) == 0 {
							table.Add(v)
							continue
						}
					}
					require.Same(t, model[key], table.GetOrAdd(key, func() *keyed { return v }))
				default:
					v, ok := table.Remove(key)
					if v != model[key] || ok != (v != nil) {
						require.Same(t, model[key], v)
					}
					delete(model, key)
				}
				key = rand.IntN(keys)
				v, ok := table.Get(key)
				if v != model[key] || ok != (v != nil) {
					require.Same(t, model[key], v)
				}
			}
			check()
		}
		for key := range keys {
			table.Remove(key)
			delete(model, key)
		}
		check()
		for range table.All() {
			require.Fail(t, "it is empty")
		}
	}
}

// TestTable_AllEnds shows that a loop over the values can end early.
func TestTable_AllEnds(t *testing.T) {
	t.Parallel()
	table := NewTable(func(v *keyed) int { return v.key })
	for key := range 100 {
		table.Add(&keyed{key: key})
	}
	n := 0
	for range table.All() {
		if n++; n == 7 {
			break
		}
	}
	require.Equal(t, 7, n)
}

// TestTable_Room shows that keys that come and go, a new one each time, do not make a table grow, and that one that gets empty has no
// more room than a new one.
func TestTable_Room(t *testing.T) {
	t.Parallel()
	table := NewTable(func(v *keyed) int { return v.key })
	room := func() (n int) {
		for _, p := range table.parts {
			n += len(p.tags)
		}
		return n
	}
	for key := range 100_000 {
		table.Add(&keyed{key: key})
		table.Remove(key - 10)
	}
	require.LessOrEqual(t, room(), tableParts*2*leastRoom)
	for key := range 10 {
		table.Remove(99_990 + key)
	}
	for key := range 100_000 {
		table.Add(&keyed{key: key})
	}
	require.GreaterOrEqual(t, room(), 100_000)
	for key := range 100_000 {
		table.Remove(key)
	}
	require.LessOrEqual(t, room(), tableParts*leastRoom)
}

// TestTable_Churn shows that a table in which the oldest value goes for each new one, as the tickets of a crowd do, moves its values seldom: one of
// them moves for two that are added.
func TestTable_Churn(t *testing.T) {
	t.Parallel()
	const live, changes = 1000, 100_000
	table, moved := NewTable(func(v *keyed) int { return v.key }), 0
	tags := make([]*uint8, tableParts)
	for key := range live + changes {
		table.Add(&keyed{key: key})
		table.Remove(key - live)
		for i, p := range table.parts {
			if len(p.tags) > 0 && tags[i] != &p.tags[0] {
				tags[i] = &p.tags[0]
				moved += p.live
			}
		}
	}
	require.Less(t, moved, changes/2)
}

// TestTable_Memory bounds the room of very many values: a place for each takes its pointer and a tag.
func TestTable_Memory(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10_000, 100_000} {
		table := NewTable(func(v *keyed) int { return v.key })
		for key := range n {
			table.Add(&keyed{key: key})
		}
		bytes := 0
		for _, p := range table.parts {
			bytes += len(p.tags) + len(p.values)*int(unsafe.Sizeof(p.values[0]))
		}
		require.Less(t, float64(bytes)/float64(n), 12.5, "a map of the language takes 24 with a number for a key, and 35 to 44 with a string")
	}
}

// BenchmarkTable shows what a key costs that comes and goes, in a table and in a map, among others.
func BenchmarkTable(b *testing.B) {
	type named struct{ key string }
	for _, n := range []int{10, 10_000} {
		values := make([]*named, n)
		for i := range values {
			values[i] = &named{"some:key:of:a:service:" + strconv.Itoa(i)}
		}
		one := &named{"some:key:of:a:service:one"}
		b.Run("table/"+strconv.Itoa(n), func(b *testing.B) {
			table := NewTable(func(v *named) string { return v.key })
			for _, v := range values {
				table.Add(v)
			}
			for b.Loop() {
				if _, ok := table.Get(one.key); !ok {
					table.Add(one)
				}
				table.Get(one.key)
				table.Remove(one.key)
			}
		})
		b.Run("map/"+strconv.Itoa(n), func(b *testing.B) {
			model := map[string]*named{}
			for _, v := range values {
				model[v.key] = v
			}
			for b.Loop() {
				if _, ok := model[one.key]; !ok {
					model[one.key] = one
				}
				_ = model[one.key]
				delete(model, one.key)
			}
		})
	}
}
