package deadlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A crowd is a process with many calls that wait.
type crowd struct {
	waits   []Wait
	holders map[string]Holder
	found   int
}

func (c *crowd) Waits() []Wait { return c.waits }

func (c *crowd) Holders(of []*Wait) [][]Holder {
	all := make([][]Holder, len(of))
	for i, w := range of {
		all[i] = []Holder{c.holders[string(w.Key)]}
	}
	return all
}

func (c *crowd) Keep(uint64) {}

func (c *crowd) Found(uint64, Circle) { c.found++ }

// TestCost has 10,000 calls of 100 processes wait, each under a lease of its own, for locks that others of them have, at the ends of which two
// wait for each other: 200 messages are sent in a second at most, after those that a process may send at once, and circles are found.
func TestCost(t *testing.T) {
	t.Parallel()
	const processes, calls, intervals = 100, 100, 4
	all := make([]*Detector, processes)
	byName := map[string]*Detector{}
	worlds := make([]*crowd, processes)
	holders := map[string]Holder{}
	for p := range processes {
		process := fmt.Sprint("p", p)
		worlds[p] = &crowd{holders: holders}
		all[p] = New(process, interval, worlds[p])
		byName[process] = all[p]
		for n := range calls {
			// The call n of a process has the key n of it, and waits for the key n/2 of the one a few places further on. Those with
			// the key 0 are in circles of two.
			own, next := fmt.Sprint(p, "/", n), fmt.Sprint((p+1+n%7)%processes, "/", n/2)
			if n == 0 {
				next = fmt.Sprint(p^1, "/", 0)
			}
			owner := fmt.Sprint(process, ":", n)
			holders[own] = Holder{Owner: owner, Process: process}
			worlds[p].waits = append(worlds[p].waits, Wait{
				Call:  Call{ID: ID{process, uint64(n) + 1}, Key: Key(next), Since: int64((p*37 + n*101) % 1009)},
				Under: []Lease{{Key(own), owner}}, Long: true,
			})
		}
	}
	const step = 50 * time.Millisecond
	ticks := make([]time.Duration, processes)
	sent, late := 0, 0
	for now := step; now < intervals*interval; now += step {
		var under []Message
		for p, d := range all {
			if ticks[p] <= now {
				next, more := d.Tick(now)
				require.True(t, more)
				ticks[p] = now + next
			}
			messages, _, _ := d.Send(now)
			under = append(under, messages...)
		}
		for _, m := range under {
			if sent++; now >= intervals*interval/2 {
				late++
			}
			byName[m.To].Receive(now, []string{m.Text})
		}
	}
	found := 0
	for _, w := range worlds {
		found += w.found
	}
	rate := float64(late) / (intervals * interval / 2).Seconds()
	t.Logf("%d messages in %d intervals, %.0f a second in the second half; calls in circles were told %d times", sent, intervals, rate, found)
	require.LessOrEqual(t, rate, 200.0)
	require.Positive(t, found)
}
