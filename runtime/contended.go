package lockrt

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// contended remembers, for about a second, of which keys a client was refused. Who asks for one of them
// stands in line with its first request, and so is spared a round trip; for all others a leaner script will do.
//
// It is a hint and forgets: keys share its slots, and one in millions is taken for another.
type contended struct {
	slots [256]atomic.Uint64 // hash of the key; in the lowest bits, when that was
}

const (
	contendedTick  = 1 << 28       // nanoseconds, about a quarter of a second
	contendedTicks = 4             // for so many a key is remembered
	contendedClock = uint64(0xfff) // the bits of the time
)

var contendedSeed = maphash.MakeSeed()

func contendedMark(key string, at time.Time) uint64 {
	return maphash.String(contendedSeed, key)&^contendedClock | uint64(monotonic.Of(at)/contendedTick)&contendedClock
}

// note says that key was refused at that time.
func (c *contended) note(key string, at time.Time) {
	mark := contendedMark(key, at)
	c.slots[mark>>56].Store(mark)
}

// lately reports whether key was refused shortly before that time.
func (c *contended) lately(key string, at time.Time) bool {
	mark := contendedMark(key, at)
	noted := c.slots[mark>>56].Load()
	return (noted^mark)&^contendedClock == 0 && noted != 0 && (mark-noted)&contendedClock <= contendedTicks
}
