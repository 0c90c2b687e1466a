package sim

import (
	"math/rand/v2"
	"time"
)

// A fault is one way to break a world.
type fault struct {
	name    string
	forgets bool // a server does not know any more what it has granted
	back    bool // a clock is set back
	tampers bool // somebody changes a key behind the backs of its holders
	counts  bool // an acquisition without a lease may never be released
	keeps   bool // the servers forget nothing, and learn nothing
	alone   bool // it is a fault of a single server
	make    func(p *plan, r *rand.Rand) (begin, end func(w *world))
}

// The processes, the servers and the links that a fault is about are drawn when the plan is made, by number.
func someone(p *plan, r *rand.Rand) func(w *world) *process {
	n := r.IntN(p.processes)
	return func(w *world) *process { return w.processes[n] }
}

func somewhere(p *plan, r *rand.Rand) func(w *world) *server {
	n := r.IntN(p.servers)
	return func(w *world) *server { return w.servers[n] }
}

// rate is a fault that befalls single requests for a while.
func rate(set func(c *chances, x float64)) func(*plan, *rand.Rand) (begin, end func(*world)) {
	return func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		only, x := r.IntN(p.processes+1), 0.02+r.Float64()*0.3
		return func(w *world) {
				w.chances.only = only
				set(&w.chances, x)
			}, func(w *world) {
				set(&w.chances, 0)
			}
	}
}

// cutOff is a fault of one process: what it sends, or is sent, is held up, and arrives when that is over.
func cutOff(dirs ...int) func(*plan, *rand.Rand) (begin, end func(*world)) {
	return func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom, reset := someone(p, r), r.IntN(4) == 0
		return func(w *world) {
				for _, l := range whom(w).links {
					for _, dir := range dirs {
						l.held[dir] = true
					}
				}
			}, func(w *world) {
				for _, l := range whom(w).links {
					for reset && len(l.conns) > 0 {
						l.conns[0].cut()
					}
					for _, dir := range dirs {
						l.release(dir)
					}
				}
			}
	}
}

// refuse is a fault of a server: it does not do some commands for a while.
func refuse(name string, what func(cmd string, nested, wrote bool) string) func(*plan, *rand.Rand) (begin, end func(*world)) {
	return func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) { where(w).refusals[name] = what },
			func(w *world) { delete(where(w).refusals, name) }
	}
}

// atServer is a fault that happens to a server in an instant.
func atServer(what func(w *world, s *server)) func(*plan, *rand.Rand) (begin, end func(*world)) {
	return func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) { what(w, where(w)) }, nil
	}
}

// hangUp breaks all connections to a server.
func (s *server) hangUp() {
	for _, l := range s.w.links {
		for l.to == s && l.p.id != 0 && len(l.conns) > 0 {
			l.conns[0].cut()
		}
	}
}

// faults are done on the goroutine of the network, which holds w.mu while it begins and ends them.
var faults = []*fault{
	{name: "reply lost, connection closed", make: rate(func(c *chances, x float64) { c.lostClosed = x })},
	{name: "reply lost, connection mute", make: rate(func(c *chances, x float64) { c.lostMute = x / 4 })},
	{name: "request lost, connection closed", make: rate(func(c *chances, x float64) { c.dropped = x })},
	{name: "request late, connection closed", make: rate(func(c *chances, x float64) { c.late = x / 2 })},
	{name: "connections broken", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom := someone(p, r)
		return func(w *world) {
			for _, l := range whom(w).links {
				for len(l.conns) > 0 {
					l.conns[0].cut()
				}
			}
		}, nil
	}},
	{name: "cut off", make: cutOff(up, down)},
	{name: "requests held up", make: cutOff(up)},
	{name: "replies held up", make: cutOff(down)},
	{name: "process stopped", make: cutOff(up, down)},
	{name: "connections refused", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom := someone(p, r)
		return func(w *world) {
				for _, l := range whom(w).links {
					l.refuses = true
					for len(l.conns) > 0 {
						l.conns[0].cut()
					}
				}
			}, func(w *world) {
				for _, l := range whom(w).links {
					l.refuses = false
				}
			}
	}},
	{name: "slow network", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom, by := someone(p, r), time.Duration(r.Int64N(int64(60*time.Millisecond)))
		return func(w *world) {
				for _, l := range whom(w).links {
					l.slow = by
				}
			}, func(w *world) {
				for _, l := range whom(w).links {
					l.slow = 0
				}
			}
	}},
	{name: "process killed", counts: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom := someone(p, r)
		return func(w *world) { whom(w).die(false) }, nil
	}},
	{name: "machine of a process lost", counts: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom := someone(p, r)
		return func(w *world) { whom(w).die(true) }, nil
	}},
	{name: "client shut down", counts: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		whom := someone(p, r)
		return func(w *world) {
			if !whom(w).dead {
				go whom(w).shutdown()
			}
		}, nil
	}},
	{name: "server stopped", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) {
				for _, l := range w.links {
					if l.to == where(w) && l.p.id != 0 {
						l.held[up] = true
					}
				}
			}, func(w *world) {
				for _, l := range w.links {
					if l.to == where(w) && l.p.id != 0 {
						l.release(up)
					}
				}
			}
	}},
	{name: "server restarted with its data", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) {
				where(w).down = true
				where(w).hangUp()
				clear(where(w).known)
			}, func(w *world) {
				where(w).down = false
			}
	}},
	{name: "server restarted empty", forgets: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) {
				where(w).down = true
				where(w).hangUp()
				clear(where(w).known)
				where(w).loseAll()
			}, func(w *world) {
				where(w).down = false
			}
	}},
	{name: "all keys deleted", forgets: true, make: atServer(func(_ *world, s *server) { s.loseAll() })},
	{name: "scripts forgotten", make: atServer(func(_ *world, s *server) { clear(s.known) })},
	{name: "failover that loses writes", forgets: true, alone: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		var behind *copied
		return func(w *world) { behind = where(w).copy(nil) },
			func(w *world) {
				where(w).hangUp()
				clear(where(w).known)
				where(w).restore(behind)
			}
	}},
	{name: "clock set ahead", forgets: true, alone: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where, by := somewhere(p, r), time.Duration(r.Int64N(int64(10*p.watchdog)))
		return func(w *world) { where(w).set(by) }, nil
	}},
	{name: "clock set back", back: true, alone: true, make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where, by := somewhere(p, r), time.Duration(r.Int64N(int64(p.watchdog)))
		return func(w *world) { where(w).set(-by) }, nil
	}},
	{name: "out of memory", make: refuse("oom", func(cmd string, _, wrote bool) string {
		if greedy[cmd] && !wrote {
			return "OOM command not allowed when used memory > 'maxmemory'."
		}
		return ""
	})},
	{name: "read-only", make: refuse("readonly", func(cmd string, _, _ bool) string {
		if writes[cmd] {
			return "READONLY You can't write against a read only replica."
		}
		return ""
	})},
	{name: "no permission for scripts", make: refuse("noperm", func(cmd string, nested, _ bool) string {
		if cmd == "EVALSHA" {
			return "NOPERM this user has no permissions to run the 'evalsha' command"
		}
		return ""
	})},
	{name: "no permission in the middle of a script", make: func(p *plan, r *rand.Rand) (begin, end func(*world)) {
		where := somewhere(p, r)
		return func(w *world) {
				where(w).refusals["noperm middle"] = where(w).deniesExpiry
			}, func(w *world) {
				delete(where(w).refusals, "noperm middle")
			}
	}},
	{name: "key deleted", forgets: true, tampers: true, make: atServer(func(w *world, s *server) { w.tamper(s, "DEL", "key0") })},
	{name: "key cut short", forgets: true, tampers: true, make: atServer(func(w *world, s *server) { w.tamper(s, "PEXPIRE", "key0", "100") })},
}

// deniesExpiry refuses scripts of this library the command PEXPIRE. Java programs have another user.
func (s *server) deniesExpiry(cmd string, nested, _ bool) string {
	if cmd == "PEXPIRE" && nested && s.now != nil && s.now.script != "" {
		return "NOPERM this user has no permissions to run the 'pexpire' command"
	}
	return ""
}

// tamper has somebody else do a command, at once. The caller holds w.mu.
func (w *world) tamper(s *server, cmd ...string) {
	if w.cluster != nil {
		s = w.serverOf(cmd[1])
	}
	w.net.at(time.Now(), func() { w.order(s, cmd...) })
}
