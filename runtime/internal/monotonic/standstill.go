package monotonic

import "time"

// Grace is how much longer a call waits for an answer whose limit was over while this process stood still: stopped, swapped out, or without a
// processor. The answer may have come meanwhile, and nobody has read it.
const Grace = 500 * time.Millisecond

// tardy is by how much no timer is late of a process that runs.
const tardy = 100 * time.Millisecond

// StoodStill reports whether this process stood still at the end of the time of a timer that was due at a moment, and has come.
func StoodStill(due time.Time) bool { return time.Since(due) > tardy }
