package observe

import (
	"strconv"
	"strings"
	"time"
)

// A Holder is the holder of a lock that a call did not get, as far as the Client knew it when the call ended: Holder of lockrt.Error. The Client
// sends nothing to learn it. It knows its own calls, the holders that it has asked for their traces (AcquireEvent.HolderTraces), and the
// owners that it has looked up to find a deadlock (Options.DeadlockAfter).
type Holder struct {
	Own     bool      // a call of the same Client holds the lock
	Process Process   // as it describes itself; of one that has not answered the ID alone; of a program with Redisson nothing
	Owner   string    // in Redis, as in HeldLock
	Since   time.Time // when the holder acquired the lock, by the clock of its process; zero if that is unknown
	Seen    time.Time // when the Client learned of the holder; unless it is Own, another one may have the lock since
}

// String returns the text about the holder in an error: held by host-a, pid 4211, since 14:02:11, seen at 14:02:12. The times are local. It leaves
// out what is unknown, and for a call of the same Client the time at which it was seen.
func (h Holder) String() string {
	parts := []string{h.who()}
	if !h.Since.IsZero() {
		parts = append(parts, "since "+timeOfDay(h.Since, h.Seen))
	}
	if !h.Own && !h.Seen.IsZero() {
		parts = append(parts, "seen at "+timeOfDay(h.Seen, h.Seen))
	}
	return "held by " + strings.Join(parts, ", ")
}

// who returns the name of the process.
func (h Holder) who() string {
	p := h.Process
	switch {
	case h.Own:
		return "this process"
	case p.Name == "" && p.Host == "" && p.ID != "":
		return "process " + p.ID
	case p.Name == "" && p.Host == "" && h.Owner != "":
		return "owner " + h.Owner
	case p.Name == "" && p.Host == "":
		return "another process"
	}
	who := strings.Trim(p.Name+", "+p.Host, ", ")
	if p.PID != 0 {
		who += ", pid " + strconv.Itoa(p.PID)
	}
	return who
}

// timeOfDay returns the local time t, with its date if that is not the date of day.
func timeOfDay(t, day time.Time) string {
	t, day = t.Local(), day.Local()
	if t.Year() == day.Year() && t.YearDay() == day.YearDay() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
