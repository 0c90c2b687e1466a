package meter

import (
	"sync"
	"sync/atomic"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// The leases of a lock are counted by the slot of time in which they began. A slot is at least slotTime long, and all
// slots but the present one are a day together.
const (
	day      = 24 * time.Hour
	slotTime = 15 * time.Minute
	slots    = int(day/slotTime) + 2
)

// An age has the slots. It knows how many leases are old without a record of each one: a lease that ends says when it
// began. Slots change when metrics are collected, so that an acquisition reads no clock for them.
type age struct {
	mu      sync.RWMutex // guards starts, and changes of current
	starts  [slots]time.Time
	current atomic.Int32
}

// begun has the leases of one lock, by the slots in which they began, and those that began before all slots.
type begun struct {
	in     [slots]atomic.Int64
	before atomic.Int64
}

func newAge() *age {
	a := &age{}
	a.starts[0] = time.Now()
	return a
}

// begin counts a lease that begins.
func (a *age) begin(of *begun) { of.in[a.current.Load()].Add(1) }

// end takes the lease from the slot in which it began. One that began just before slots changed may have been counted in
// the next slot: then over is too small by one while the earlier slot is a day old and the next one is not. It is never too large.
func (a *age) end(of *begun, e *lockrt.EndEvent) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	current := int(a.current.Load())
	slot, from := current, e.At.Add(-e.Held)
	for !e.At.IsZero() && !from.After(a.starts[slot]) {
		earlier := (slot + slots - 1) % slots
		if earlier == current {
			of.before.Add(-1)
			return
		}
		if a.starts[earlier].IsZero() {
			break // there were no leases before the first slot
		}
		slot = earlier
	}
	of.in[slot].Add(-1)
}

// turn begins a slot, if the present one is long enough. It uses the earliest slot again.
func (a *age) turn(now time.Time, all func() []*begun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := int(a.current.Load())
	if now.Sub(a.starts[current]) < slotTime {
		return
	}
	next := (current + 1) % slots
	for _, of := range all() {
		of.before.Add(of.in[next].Swap(0))
	}
	a.starts[next] = now
	a.current.Store(int32(next))
}

// over returns how many leases have been held for longer than a day.
func (a *age) over(of *begun, now time.Time) int64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	n, current := of.before.Load(), int(a.current.Load())
	for i := range slots {
		if end := a.starts[(i+1)%slots]; i != current && !a.starts[i].IsZero() && now.Sub(end) >= day {
			n += of.in[i].Load()
		}
	}
	return max(0, n)
}

// OverDay reports how many leases and permits of each kind and name have been held for longer than a day, at most a quarter
// of an hour late if it is called as often as that.
func (m *Meter) OverDay(report func(of Labels, n int64)) {
	now := time.Now()
	m.age.turn(now, func() (all []*begun) {
		for l := range m.all() {
			all = append(all, &l.begun)
		}
		return all
	})
	for l := range m.all() {
		if l.leases() {
			report(l.of, m.age.over(&l.begun, now))
		}
	}
}
