// Package monotonic tells the time by the monotonic clock alone, which takes half as long to read as the two
// that time.Now reads.
package monotonic

import (
	"math"
	"sync/atomic"
	"time"
)

// A Time is a moment, in a third of the memory of a time.Time. The zero Time is no moment, and before all others.
type Time int64 // nanoseconds since the epoch

// epoch is the beginning of 1970, and so before any moment of virtual time too.
var epoch = func() time.Time {
	now := time.Now()
	return now.Add(-now.Sub(time.Unix(0, 0)))
}()

// Now returns the time.
func Now() Time { return Time(time.Since(epoch)) }

// Of returns the Time of t, which is right to compare and to subtract if t is a reading of this process.
func Of(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.Sub(epoch))
}

// Std returns t as the standard library has it, to compare and to subtract. As a date it is off by what the wall clock was
// set since the process began: Date and SteadyDate are dates for users.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(t))
}

// Date returns t as the date by the wall clock as it is set at present. Two calls may differ by what the two clocks differ
// in their speed, and in when they are read.
func (t Time) Date() time.Time {
	if t == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(t.Sub(Of(now)))
}

// steadiness is by how much SteadyDate may differ from Date.
const steadiness = 100 * time.Millisecond

// steady is the reading of both clocks from which SteadyDate counts, or nil before the first.
var steady atomic.Pointer[time.Time]

// SteadyDate returns Date to a tenth of a second. It stays the same, to the nanosecond, until the wall clock is set,
// so that a moment can be recognized by its date.
func (t Time) SteadyDate() time.Time {
	if t == 0 {
		return time.Time{}
	}
	now, from := time.Now(), steady.Load()
	if from == nil || (now.Round(0).Sub(from.Round(0))-now.Sub(*from)).Abs() > steadiness {
		from = &now
		steady.Store(from)
	}
	return from.Add(t.Sub(Of(*from)))
}

// Since returns how long ago t was.
func Since(t Time) time.Duration { return Now().Sub(t) }

// Until returns in how long t will be.
func Until(t Time) time.Duration { return t.Sub(Now()) }

// IsZero reports whether t is no moment.
func (t Time) IsZero() bool { return t == 0 }

// Add returns the moment d after t, or the last one that there is.
func (t Time) Add(d time.Duration) Time {
	if sum := t + Time(d); sum >= t || d < 0 {
		return sum
	}
	return math.MaxInt64
}

// Sub returns how long after u t is.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is before u.
func (t Time) Before(u Time) bool { return t < u }

// After reports whether t is after u.
func (t Time) After(u Time) bool { return t > u }
