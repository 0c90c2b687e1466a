package engine

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Contended remembers, for about a second, the keys that a client was refused, or that another client wanted from it. A caller of such a key joins the wait
// queue with its first request, which saves a round trip; for other keys that do not linger a leaner script suffices.
//
// It is a hint and forgets: keys share its slots, and one key in millions is mistaken for another.
type Contended struct {
	slots  [256]atomic.Uint64 // hash of the key; in the lowest bits, the time
	latest atomic.Uint64      // when a key was noted last, in ticks; 0 for never. Mostly no key was noted lately, and none has to be looked for
}

const (
	contendedTick  = 1 << 28       // nanoseconds, about a quarter of a second
	contendedTicks = 4             // it remembers a key for this many ticks
	contendedClock = uint64(0xfff) // the bits of the time
)

var contendedSeed = maphash.MakeSeed()

func contendedMark(key string, ticks uint64) uint64 {
	return maphash.String(contendedSeed, key)&^contendedClock | ticks&contendedClock
}

// ticksAt returns how many ticks have begun until that time.
func ticksAt(at time.Time) uint64 { return uint64(monotonic.Of(at) / contendedTick) }

// Note records that key was refused, or wanted by another client, at that time.
func (c *Contended) Note(key string, at time.Time) {
	ticks := ticksAt(at)
	mark := contendedMark(key, ticks)
	c.slots[mark>>56].Store(mark)
	if c.latest.Load() != ticks {
		c.latest.Store(ticks)
	}
}

// Lately reports whether key was noted shortly before that time.
func (c *Contended) Lately(key string, at time.Time) bool {
	ticks := ticksAt(at)
	if ticks > c.latest.Load()+contendedTicks {
		return false
	}
	mark := contendedMark(key, ticks)
	noted := c.slots[mark>>56].Load()
	return (noted^mark)&^contendedClock == 0 && noted != 0 && (mark-noted)&contendedClock <= contendedTicks
}
