package lockweb

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// The limits of a History.
const (
	historyMinutes = 15
	historyNames   = 1000 // the others share the name "other"
	historyLosses  = 100
)

const otherNames = "other"

// A History records the past, which a snapshot does not show: how long calls waited in the last 15 minutes, by the
// names of their locks, and which leases were lost and which calls were in a deadlock. The zero value is ready to use,
// for any number of clients, and safe for concurrent use:
//
//	history := &lockweb.History{}
//	client, err := lockrt.Open(ctx, url, lockrt.Options{Hooks: history.Hooks(lockrt.Hooks{})})
//	http.Handle("/debug/locks", lockweb.Handler(client).With(lockweb.WithHistory(history)))
//
// A call that does not wait costs a check. It keeps at most 1,000 names, and the last 100 losses and deadlocks.
type History struct {
	mu     sync.Mutex // guards the rest
	waits  map[string]*row15
	losses []loss // the newest last
}

// A loss is a lease that ended without a release, or a call that was in a deadlock.
type loss struct {
	At     time.Time
	Key    string
	Kind   string
	Name   string
	Reason string
	Held   time.Duration
}

// A row15 has seconds of waiting, one cell for each minute. The number of the minute in a cell tells whether it is one
// of the last 15.
type row15 [historyMinutes + 1]struct {
	minute  int64
	seconds float64
}

// add adds a wait, to each minute its part of the wait. The wall clock may have been set during it: the wait is as long as the
// monotonic clock says, and ends when the wall clock says.
func (r *row15) add(from, to time.Time) {
	waited := to.Sub(from)
	to = to.Round(0)
	from = to.Add(-waited)
	if earliest := to.Add(-historyMinutes * time.Minute); from.Before(earliest) {
		from = earliest
	}
	for from.Before(to) {
		end := from.Truncate(time.Minute).Add(time.Minute)
		if end.After(to) {
			end = to
		}
		minute := from.Unix() / 60
		cell := &r[minute%int64(len(r))]
		if cell.minute != minute {
			cell.minute, cell.seconds = minute, 0
		}
		cell.seconds += end.Sub(from).Seconds()
		from = end
	}
}

// last returns the seconds of the last 15 minutes, the present one last.
func (r *row15) last(now time.Time) (cells [historyMinutes]float64) {
	first := now.Unix()/60 - historyMinutes + 1
	for i := range cells {
		minute := first + int64(i)
		if cell := r[minute%int64(len(r))]; cell.minute == minute {
			cells[i] = cell.seconds
		}
	}
	return cells
}

// Hooks returns hooks for [lockrt.Options] that record and then call next.
func (h *History) Hooks(next lockrt.Hooks) lockrt.Hooks {
	hooks := next
	hooks.AcquireEnd = func(ctx context.Context, e lockrt.AcquireEvent) {
		if e.Contended {
			now := time.Now()
			h.waited(e.Name, now.Add(-e.Waited), now)
		}
		if next.AcquireEnd != nil {
			next.AcquireEnd(ctx, e)
		}
	}
	hooks.Ended = func(ctx context.Context, e lockrt.EndEvent) {
		if e.Reason != lockrt.EndReleased && e.Reason != lockrt.EndClosed {
			h.lose(loss{At: e.At, Key: e.Key, Kind: string(e.Kind), Name: e.Name, Reason: string(e.Reason), Held: e.Held})
		}
		if next.Ended != nil {
			next.Ended(ctx, e)
		}
	}
	hooks.Deadlock = func(ctx context.Context, e lockrt.DeadlockEvent) {
		reason := "deadlock"
		if e.Broken {
			reason = "deadlock, ended"
		}
		h.lose(loss{At: time.Now(), Key: e.Key, Kind: string(e.Kind), Name: e.Name, Reason: reason})
		if next.Deadlock != nil {
			next.Deadlock(ctx, e)
		}
	}
	return hooks
}

func (h *History) waited(name string, from, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits == nil {
		h.waits = map[string]*row15{}
	}
	if h.waits[name] == nil && len(h.waits) >= historyNames {
		h.forget(to)
		if len(h.waits) >= historyNames {
			name = otherNames
		}
	}
	r := h.waits[name]
	if r == nil {
		r = &row15{}
		h.waits[name] = r
	}
	r.add(from, to)
}

// forget drops the names without recent waits.
func (h *History) forget(now time.Time) {
	for name, r := range h.waits {
		if r.last(now) == [historyMinutes]float64{} {
			delete(h.waits, name)
		}
	}
}

func (h *History) lose(l loss) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.losses) == historyLosses {
		h.losses = slices.Delete(h.losses, 0, 1)
	}
	h.losses = append(h.losses, l)
}

// A heatRow has the seconds that calls waited for the locks of one name, in each of the last 15 minutes.
type heatRow struct {
	Name  string
	Cells [historyMinutes]float64
	total float64
}

// addTo adds the records to rows.
func (h *History) addTo(rows map[string]*heatRow, now time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, r := range h.waits {
		addCells(rows, name, r.last(now))
	}
}

func addCells(rows map[string]*heatRow, name string, cells [historyMinutes]float64) {
	if cells == [historyMinutes]float64{} {
		return
	}
	row := rows[name]
	if row == nil {
		row = &heatRow{Name: name}
		rows[name] = row
	}
	for i, seconds := range cells {
		row.Cells[i] += seconds
		row.total += seconds
	}
}

// lostOnes returns the losses, the newest first.
func (h *History) lostOnes() []loss {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.losses)
	slices.Reverse(all)
	return all
}

// A waitID identifies a waiting call, in one look and the next.
type waitID struct {
	process, key, name, kind string
	since                    int64 // nanoseconds
}

// A waitSeen is a call that waited at the last look.
type waitSeen struct {
	name     string
	from, to time.Time
}

// mostHeatRows is the number of rows of the heat map.
const mostHeatRows = 30

// heat returns the wait times of each name: those that hooks recorded, those seen before, and those of present waiters.
func (p *Page) heat(world *survey.World) []heatRow {
	now := world.At
	hooked := map[string]bool{}
	if p.history != nil {
		for _, c := range p.clients {
			hooked[c.ID()] = true
		}
	}
	seen := map[waitID]waitSeen{}
	rows := map[string]*heatRow{}
	for _, l := range world.Locks {
		for _, w := range l.Waiters {
			if w.Since == nil {
				continue
			}
			name := cmp.Or(w.Name, w.Kind)
			seen[waitID{w.Process, l.Key, w.Name, w.Kind, w.Since.UnixNano()}] = waitSeen{name, *w.Since, now}
			var r row15
			r.add(*w.Since, now)
			addCells(rows, name, r.last(now))
		}
	}
	for id, s := range p.seen {
		if _, waits := seen[id]; !waits && !hooked[id.process] {
			p.own.waited(s.name, s.from, s.to)
		}
	}
	p.seen = seen
	p.own.addTo(rows, now)
	p.history.addTo(rows, now)
	all := make([]heatRow, 0, len(rows))
	for _, r := range rows {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b heatRow) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), mostHeatRows)]
}
