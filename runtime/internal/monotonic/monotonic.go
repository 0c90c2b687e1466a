// Package monotonic tells the time by the monotonic clock alone, which takes half as long to read as the two
// that time.Now reads.
package monotonic

import (
	"math"
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

// Std returns t as the standard library has it. As a date it is off by what the wall clock was set since the
// process began.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(t))
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
