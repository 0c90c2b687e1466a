package deadlock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place is a process with one call that waits for the lock of the next one.
type place struct {
	self, next string
	waits      bool
	kept       bool
	found      int
	detector   *Detector
}

func (p *place) lease() Lease { return Lease{Key(p.self), "owner"} }

// Waits implements World. The call of c began to wait last.
func (p *place) Waits() []Wait {
	if !p.waits {
		return nil
	}
	return []Wait{{
		Call:  Call{ID: ID{p.self, 1}, Key: Key(p.next), Since: int64(p.self[0])},
		Under: []Lease{p.lease()}, Long: true,
	}}
}

// Holders implements World.
func (p *place) Holders([]*Wait) [][]Holder { return [][]Holder{{{"owner", p.next}}} }

// Keep implements World.
func (p *place) Keep(uint64) { p.kept = true }

// Found implements World.
func (p *place) Found(uint64, Circle) { p.found++ }

// A triangle is three processes in a circle.
type triangle struct {
	all  map[string]*place
	now  time.Duration
	lose func(m Message) bool // whether a message is lost
}

func newTriangle() *triangle {
	c := &triangle{all: map[string]*place{}, now: 1, lose: func(Message) bool { return false }}
	for _, name := range []string{"ab", "bc", "ca"} {
		p := &place{self: name[:1], next: name[1:], waits: true}
		p.detector = New(p.self, interval, p)
		c.all[p.self] = p
	}
	return c
}

// step lets an interval pass, in which all look, and carries messages until none is left.
func (c *triangle) step() {
	for _, name := range []string{"a", "b", "c"} {
		c.all[name].detector.Tick(c.now)
	}
	for range 20 {
		c.now += interval / 100
		for _, name := range []string{"a", "b", "c"} {
			messages, _, _ := c.all[name].detector.Send(c.now)
			for _, m := range messages {
				if !c.lose(m) {
					c.all[m.To].detector.Receive(c.now, []string{m.Text})
				}
			}
		}
	}
	c.now += interval
}

// TestFound_LostAndBroken loses the message that tells a process of its circle, and breaks the circle: the process hears of it
// nevertheless, once, though no round finds it again.
func TestFound_LostAndBroken(t *testing.T) {
	t.Parallel()
	c := newTriangle()
	lost := 0
	c.lose = func(m Message) bool {
		if m.To == "b" && strings.Contains(m.Text, `"found"`) {
			lost++
			return true
		}
		return false
	}
	c.step()
	require.Equal(t, []int{1, 0, 1}, []int{c.all["a"].found, c.all["b"].found, c.all["c"].found})
	require.Equal(t, 1, lost)
	require.True(t, c.all["b"].kept)

	c.lose = func(Message) bool { return false }
	c.all["c"].waits = false // it was ended
	c.all["b"].waits = false // it has what c had
	for range 6 {
		c.step()
	}
	require.Equal(t, 1, c.all["b"].found)
}

// TestFound_LateForOneThatWaits shows that a process which hears of a circle late does not report it for a call that waits still:
// the circle may be gone. The next round finds one that is not.
func TestFound_LateForOneThatWaits(t *testing.T) {
	t.Parallel()
	c := newTriangle()
	var late []Message
	c.lose = func(m Message) bool {
		if m.To == "b" && strings.Contains(m.Text, `"found"`) {
			late = append(late, m)
			return true
		}
		return false
	}
	c.step()
	require.Len(t, late, 1)
	c.all["c"].waits = false // it gave up, and b waits for another one that has the lock now
	c.now += interval
	c.all["b"].detector.Receive(c.now, []string{late[0].Text})
	require.Zero(t, c.all["b"].found)

	c.lose = func(Message) bool { return false }
	c.all["c"].waits = true
	c.step()
	require.Equal(t, 1, c.all["b"].found, "a circle that is there")
}
