package observe

import (
	"fmt"
	"strings"
	"time"
)

// A Deadlock is a circle of calls of which each waits for a lock that the next one holds, and the last for one of the first. If a call waits for
// a permit, all holders of the permits wait: the circle has the calls of all of them that it runs through.
type Deadlock struct {
	Calls  []DeadlockedCall // the one that has waited for longest first
	Victim int              // the index of the one that has waited for the shortest time: it is ended, with Options.BreakDeadlocks of its Client
}

// A DeadlockedCall is one call of a [Deadlock].
type DeadlockedCall struct {
	Key     string // the key that it waits for
	Kind    Kind
	Name    string    // lockrt.WithName, or none
	Since   time.Time // when it began to wait, by the clock of its process
	Process Process   // of it ID, Name, Host, PID and Program are known
}

// String returns one line with the key, the process, the name and the time of each call.
func (d Deadlock) String() string {
	texts := make([]string, len(d.Calls))
	for i, c := range d.Calls {
		texts[i] = c.String()
	}
	return fmt.Sprintf("%d calls wait for each other: %s", len(d.Calls), strings.Join(texts, "; "))
}

// String returns what the call waits for, who it is, and since when.
func (c DeadlockedCall) String() string {
	var b strings.Builder
	if c.Name != "" {
		b.WriteString(c.Name + " of ")
	}
	service := c.Process.Name
	if service == "" {
		service = c.Process.Program
	}
	b.WriteString(service)
	if c.Process.Host != "" {
		b.WriteString(" on " + c.Process.Host)
	}
	if c.Process.PID != 0 {
		fmt.Fprintf(&b, " pid %d", c.Process.PID)
	}
	fmt.Fprintf(&b, " (%s) waits for %s %q since %s", c.Process.ID, c.Kind, c.Key, c.Since.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	return b.String()
}

// A DeadlockEvent is about one call of this process that is in a [Deadlock].
type DeadlockEvent struct {
	Kind     Kind   // as in [AcquireEvent]: of a MultiLock [KindMulti]
	Name     string // as in [AcquireEvent]
	Template string // as in [AcquireEvent]
	Key      string // the lock that the call waits for, one of those of a MultiLock
	Deadlock Deadlock
	Broken   bool // the call is ended because of it: it fails with lockrt.ErrDeadlock
}
