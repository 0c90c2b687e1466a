package deadlock

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// mostUnread is the largest number of unread messages. A message that does not fit is sent again.
const mostUnread = 1000

// A Config configures a [Runner].
type Config struct {
	Self     string        // the process
	Interval time.Duration // between two looks
	Answers  bool          // the process begins no search of its own
	World    World         // used on one goroutine at a time
	Send     func(messages []Message)
	Spawn    func(f func())  // runs f on another goroutine
	Closing  <-chan struct{} // closed when the process looks and answers no more
}

// A Runner runs the Detector of a process, on a goroutine that exists while there is something to do. There is none, and no timer,
// before the first Look or Receive.
type Runner struct {
	cfg      Config
	began    monotonic.Time // the zero of the detector's clock
	detector *Detector      // only the running goroutine uses it

	mu      sync.Mutex // guards the rest
	inbox   []string   // messages of other processes
	due     bool       // it is time to look
	running bool
	ticked  monotonic.Time // when it last looked
	next    monotonic.Time // when to look next, or 0
	timer   *time.Timer
}

// Init configures a Runner, before its first use.
func (r *Runner) Init(cfg Config) { r.cfg = cfg }

// Receive takes a message of another process. It does not block.
func (r *Runner) Receive(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.inbox) < mostUnread {
		r.inbox = append(r.inbox, text)
	}
	r.start()
}

// Look schedules a look: at once, or a little later if the last one was a moment ago.
func (r *Runner) Look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pause := r.cfg.Interval/20 - monotonic.Since(r.ticked); !r.ticked.IsZero() && pause > 0 {
		r.wake(pause)
		return
	}
	r.due = true
	r.start()
}

// wake schedules a look within a duration. The caller holds the lock.
func (r *Runner) wake(in time.Duration) {
	at := monotonic.Now().Add(in)
	if !r.next.IsZero() && !at.Before(r.next) {
		return
	}
	r.next = at
	if r.timer != nil {
		r.timer.Reset(in)
		return
	}
	r.timer = time.AfterFunc(in, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.next, r.due = 0, true
		r.start()
	})
}

// start starts the work, unless it is under way. The caller holds the lock.
func (r *Runner) start() {
	if !r.running && r.open() {
		r.running = true
		r.cfg.Spawn(r.run)
	}
}

// open reports whether the process is not closing.
func (r *Runner) open() bool {
	select {
	case <-r.cfg.Closing:
		return false
	default:
		return true
	}
}

// run does the pending work.
func (r *Runner) run() {
	for {
		r.mu.Lock()
		texts, due := r.inbox, r.due
		r.inbox, r.due = nil, false
		if len(texts) == 0 && !due || !r.open() {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()

		if r.detector == nil {
			r.began = monotonic.Now()
			r.detector = New(r.cfg.Self, r.cfg.Interval, r.cfg.World)
		}
		now := func() time.Duration { return monotonic.Since(r.began) + 1 }
		if len(texts) > 0 {
			r.detector.Receive(now(), texts)
		}
		looks := false
		var next time.Duration
		if due && !r.cfg.Answers {
			next, looks = r.detector.Tick(now())
		}
		messages, rest, more := r.detector.Send(now())
		if len(messages) > 0 {
			r.cfg.Send(messages)
		}
		r.mu.Lock()
		if due {
			r.ticked = monotonic.Now()
		}
		if looks {
			r.wake(next)
		}
		if more {
			r.wake(rest)
		}
		r.mu.Unlock()
	}
}
