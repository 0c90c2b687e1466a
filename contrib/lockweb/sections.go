package lockweb

import (
	"cmp"
	"math"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
)

// A summary is the facts at the top.
type summary struct {
	Held, Waiting, Deadlocks int
	Losses                   uint64
	LossesKnown              bool
	Longest                  string
	Silent, Omitted          int
	Mute                     []string // servers that did not answer
}

// A heatMap is how long calls waited, by names and minutes.
type heatMap struct {
	Minutes [historyMinutes]string
	Rows    []heatLine
}

type heatLine struct {
	Name  string
	Cells [historyMinutes]heatCell
	Total string
}

type heatCell struct {
	Level int // 0 to 5
	Text  string
}

// A circleView is a deadlock as text: each call waits for a lock that the next one holds.
type circleView struct {
	Calls []circleCall
}

type circleCall struct {
	Who, Name, Key string
	Since, Now     int64
}

// A lossView is a lease that was lost.
type lossView struct {
	At, Kind, Name, Reason, Held string
	Key                          keyText
}

// sections builds the parts that are replaced as a whole when they change.
func (p *Page) sections(world *survey.World, v *view) []section {
	circles := circlesOf(world)
	s := summary{Deadlocks: len(circles), Silent: len(world.Silent), Omitted: world.Omitted}
	for _, addr := range world.Mute {
		s.Mute = append(s.Mute, survey.Clean(addr))
	}
	s.Held, s.Waiting = len(v.Held.Rows)+v.Held.More, len(v.Waiting.Rows)+v.Waiting.More
	if len(v.Held.Rows) > 0 && v.Held.Rows[0].Since > 0 {
		s.Longest = survey.Short(time.Duration(v.Now()-v.Held.Rows[0].Since) * time.Millisecond)
	}
	if !p.fleet {
		s.LossesKnown = true
		for _, c := range p.clients {
			s.Losses += c.Stats().Losses
		}
	}
	views := make([]circleView, len(circles))
	for i, c := range circles {
		for _, l := range c {
			views[i].Calls = append(views[i].Calls, circleCall{
				survey.Clean(l.Waiter.String()), survey.Clean(cmp.Or(l.Waiter.Name, l.Waiter.Kind)), textOf(l.Key).Short, millis(l.Waiter.Since), v.Now(),
			})
		}
	}
	var losses []lossView
	for _, l := range p.history.lostOnes() {
		held := ""
		if l.Held > 0 { // a call in a deadlock may hold nothing
			held = survey.Short(l.Held)
		}
		losses = append(losses, lossView{
			l.At.Format(time.DateTime), l.Kind, survey.Clean(l.Name), l.Reason, held, textOf(l.Key),
		})
	}
	return []section{
		{"summary", htmlOf("summary", s)},
		{"deadlocks", htmlOf("deadlocks", views)},
		{"graph", htmlOf("graph", draw(world, circles))},
		{"heat", htmlOf("heat", p.heatMap(world))},
		{"losses", htmlOf("losses", struct {
			Known  bool
			Losses []lossView
		}{p.history != nil, losses})},
	}
}

// circlesOf returns the deadlocks. Calls that wait without a lease are in none.
func circlesOf(world *survey.World) []survey.Circle {
	for _, l := range world.Locks {
		for _, w := range l.Waiters {
			if len(w.Under) > 0 {
				return world.Graph().Circles()
			}
		}
	}
	return nil
}

func (p *Page) heatMap(world *survey.World) heatMap {
	var m heatMap
	first := world.At.Truncate(time.Minute).Add(-(historyMinutes - 1) * time.Minute)
	for i := range m.Minutes {
		m.Minutes[i] = first.Add(time.Duration(i) * time.Minute).Local().Format("15:04")
	}
	for _, row := range p.heat(world) {
		line := heatLine{Name: textOf(row.Name).Short, Total: seconds(row.total)}
		for i, s := range row.Cells {
			line.Cells[i] = heatCell{levelOf(s), seconds(s)}
		}
		m.Rows = append(m.Rows, line)
	}
	return m
}

// levelOf returns the heat of the seconds waited in a minute: up to one, ten, sixty, six hundred seconds, or more.
func levelOf(s float64) int {
	switch {
	case s <= 0:
		return 0
	case s < 1:
		return 1
	case s < 10:
		return 2
	case s < 60:
		return 3
	case s < 600:
		return 4
	}
	return 5
}

// seconds formats seconds of waiting as a short text.
func seconds(s float64) string {
	switch {
	case s <= 0:
		return ""
	case s < 1:
		return "<1s"
	}
	return survey.Short(time.Duration(math.Round(s)) * time.Second)
}
