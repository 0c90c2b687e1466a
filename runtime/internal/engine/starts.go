package engine

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Starts remembers the keys whose last release by this client left them free while Redisson's waiters listened, and the start
// that those had then.
//
// It is a hint and forgets: keys share its slots. As long as it has remembered no key, it costs one load.
type Starts struct {
	some    atomic.Bool // it has remembered a key
	slots   [256]atomic.Pointer[start]
	foreign Contended // keys that this client was refused, since a program without this library had them
}

// mostPauses bounds for how many releases of a key Redisson's waiters have no start, as two to the power of it.
const mostPauses = 6

// A start is that of a key. It does not change.
type start struct {
	key    string
	lasts  time.Duration
	over   monotonic.Time
	heard  uint64
	unused int // how many series of starts in a row nobody used
	pause  int // without a start: how many releases more have none
}

func (s *Starts) slot(key string) *atomic.Pointer[start] {
	return &s.slots[maphash.String(contendedSeed, key)>>56]
}

func (s *Starts) of(key string) *start {
	if !s.some.Load() {
		return nil
	}
	if x := s.slot(key).Load(); x != nil && x.key == key {
		return x
	}
	return nil
}

// Begin records that Redisson's waiters have a start for key from now on, for as long as lasts says, which may be 0. heard is how
// many messages the client has heard on the channel of key when it hears the one of its release.
func (s *Starts) Begin(key string, lasts time.Duration, heard uint64) {
	x := &start{key: key, lasts: lasts, over: monotonic.Now().Add(lasts), heard: heard}
	if before := s.of(key); before != nil {
		x.unused = before.unused
		switch {
		case lasts > 0:
		case before.lasts > 0: // it was the last one of a series
			x.pause = 1<<x.unused - 1
			x.unused = min(x.unused+1, mostPauses)
		default:
			x.pause = max(before.pause-1, 0)
		}
	}
	s.slot(key).Store(x)
	s.some.Store(true)
}

// Heard records that so many messages were heard on the channel of key. One after that of the release is from an owner that has
// had the lock since: the start is over, and was used.
func (s *Starts) Heard(key string, messages uint64) {
	if x := s.of(key); x != nil && x.lasts > 0 && messages > x.heard {
		s.slot(key).CompareAndSwap(x, nil)
	}
}

// Last returns how long the last start for key was to last, and whether it is known.
func (s *Starts) Last(key string) (lasts time.Duration, known bool) {
	if x := s.of(key); x != nil {
		return x.lasts, true
	}
	return 0, false
}

// Due reports whether a start is due after the next release, since there was none after the last one. After each series of starts
// that nobody used, as where a program only listens, twice as many releases have none.
func (s *Starts) Due(key string) bool {
	x := s.of(key)
	return x != nil && x.lasts == 0 && x.pause == 0
}

// Left returns for how long the start for key lasts from now on.
func (s *Starts) Left(key string) time.Duration {
	if x := s.of(key); x != nil && x.lasts > 0 {
		return max(0, monotonic.Until(x.over))
	}
	return 0
}

// Refused records that at that time another owner had key, which is a program without this library if foreign.
func (s *Starts) Refused(key string, foreign bool, at time.Time) {
	if foreign {
		s.foreign.Note(key, at)
	}
	s.End(key, foreign)
}

// Foreign reports whether a program without this library had key shortly before that time. As long as it did, a waiter listens
// for its messages during a start. A client that listened without such a reason would look to others as one of Redisson's
// waiters, and they to it: each would give the others starts for ever.
func (s *Starts) Foreign(key string, at time.Time) bool { return s.foreign.Lately(key, at) }

// Forget forgets key: none of Redisson's waiters heard of its last release.
func (s *Starts) Forget(key string) { s.End(key, true) }

// End ends the start for key, since another owner has it. Key is forgotten if one of Redisson's waiters was in time; else the
// last start was none.
func (s *Starts) End(key string, used bool) {
	switch x := s.of(key); {
	case x == nil:
	case used:
		s.slot(key).CompareAndSwap(x, nil)
	case x.lasts > 0:
		s.slot(key).CompareAndSwap(x, &start{key: key, unused: x.unused})
	}
}
