package tracetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/scripts"
	"github.com/lockgen/lockgen/spec"
)

// A Run is what processes and a real server did, by one clock.
type Run struct {
	Kind      string // mutex, fair, rw, or count for semaphores, permits and latches
	Processes int
	Steps     []trace.Step // of mutexes: of all processes
	Commands  []*Command   // of the server, in order
	Until     time.Time    // the events after it are left out; zero for none
}

// The times of a real server are as exact as its milliseconds, and as the moments at which a busy machine notes them. How long a client
// trusts in its lease is not replayed: it may be kept from noting that.
const (
	realSlack = 300 * time.Millisecond
	realLate  = time.Hour
)

// ClockSet reports whether the clock of the machine was set since a moment, so that the times of a run have no order.
func ClockSet(since time.Time) bool {
	now := time.Now()
	took, by := now.Sub(since), now.Round(0).Sub(since.Round(0))
	return (by - took).Abs() > time.Millisecond+took/1000 // more than a clock is made faster or slower
}

// Replay replays a run, and returns how many events of each action it had. An embedded server repeats what the scripts wrote, and is looked
// at in place of the real one.
func (r Run) Replay() (actions map[string]int, err error) {
	rep, err := newReplica()
	if err != nil {
		return nil, err
	}
	defer rep.m.Close()
	slices.SortStableFunc(r.Steps, func(a, b trace.Step) int { return a.At.Compare(b.At) })
	if len(r.Commands) == 0 {
		return nil, errors.New("the server has run no script")
	}
	began := r.Commands[0].At
	if len(r.Steps) > 0 && r.Steps[0].At.Before(began) {
		began = r.Steps[0].At
	}
	actions = map[string]int{}
	replay := rep.replayer(r.Kind, r.Processes, began, actions)
	if replay == nil {
		return nil, fmt.Errorf("there are no traces of %q", r.Kind)
	}
	steps := r.Steps
	for _, c := range r.Commands {
		for len(steps) > 0 && !steps[0].At.After(c.At) {
			if err := replay(nil, &steps[0]); err != nil {
				return actions, err
			}
			steps = steps[1:]
		}
		if !r.Until.IsZero() && c.At.After(r.Until) {
			return actions, nil
		}
		if len(c.Calls) == 0 {
			continue // the server did not have the script, and said so
		}
		if err := replay(c, nil); err != nil {
			return actions, err
		}
	}
	return actions, nil
}

// A replica is an embedded server that repeats what scripts wrote on another one. A key expires later than it did there: when a script found
// that it had expired, the replica sees that by what the script wrote.
type replica struct {
	m     *miniredis.Miniredis
	peer  *server.Peer
	part  bool            // mutexes are parts of RedLocks
	vague map[string]bool // keys that expire at a time that is not known well, since the server stood still in the script that set it
}

// A server looks at its clock for a command, and once more for its MONITOR: a busy machine may stop it in between. lag is how much later keys
// expire in a replica, which is longer. A turn, which is shorter, is sure unless it ends within turnLag.
const (
	lag     = 300 * time.Millisecond
	turnLag = 40 * time.Millisecond
)

// A server that is stopped inside of a script sets what the script sets later than MONITOR says, if it is a Redis before 7.2: from then on,
// all calls of a script see one clock. standstill is how long no script takes by itself.
const standstill = turnLag

func newReplica() (*replica, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, err
	}
	return &replica{m: m, peer: server.NewPeer(bufio.NewWriter(io.Discard)), vague: map[string]bool{}}, nil
}

// written are the commands of scripts that write.
var written = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields("set del unlink expire pexpire persist incr incrby decr decrby hset hdel hincrby lpush rpush lpop rpop lrem " +
		"linsert lset zadd zrem zremrangebyscore zincrby rename") {
		all[name] = true
	}
	return all
}()

func (r *replica) apply(c *Command) {
	r.m.SetTime(c.At)
	for _, call := range c.Calls {
		name := strings.ToLower(call[0])
		if !written[name] {
			continue
		}
		call = slices.Clone(call)
		switch last := len(call) - 1; {
		case name == "hset":
			r.begin(call)
		case name == "pexpire":
			call[2] = later(call[2])
			r.vague[call[1]] = c.Took > standstill
		case name == "set" && last > 2 && strings.EqualFold(call[last-1], "px"):
			call[last] = later(call[last])
			r.vague[call[1]] = c.Took > standstill
		}
		r.m.Server().Dispatch(r.peer, call)
	}
}

// knows reports whether it is known when the keys of a lock expire.
func (r *replica) knows(key string) bool {
	for k, vague := range r.vague {
		if vague && (k == key || strings.Contains(k, "{"+key+"}")) {
			if r.m.Exists(k) {
				return false
			}
			delete(r.vague, k)
		}
	}
	return true
}

// later returns so many ms, and the lag.
func later(ms string) string { return strconv.FormatInt(number(ms)+lag.Milliseconds(), 10) }

// begin deletes a lock that has expired, if the fields that are written into it are of a new owner.
func (r *replica) begin(hset []string) {
	key, owner := hset[1], hset[len(hset)-2]
	_, library := protocol.ClientOf(owner)
	has, _ := r.m.HKeys(key)
	joins := len(hset) == 4 && slices.Contains(has, "mode") // other readers
	beside := strings.Contains(key, "{")                    // no lock, but a key beside one
	if library && !joins && !beside && !slices.Contains(has, owner) {
		r.m.Del(key)
	}
}

// left returns how long a key lives there that has so long here; ok is false if it may have expired.
func left(here time.Duration) (there time.Duration, ok bool) {
	if here == 0 {
		return 0, true // there is none, or it does not expire
	}
	return here - lag, here >= 2*lag
}

// of returns the script of a command, its keys, and the arguments behind them.
func (c *Command) of() (script string, keys, args []string) {
	n, _ := strconv.Atoi(c.Words[2])
	return names[c.Words[1]], c.Words[3 : 3+n], c.Words[3+n:]
}

var names = func() map[string]string {
	all := map[string]string{}
	for _, s := range scripts.All() {
		all[s.SHA1()] = s.Name
	}
	return all
}()

// replayer returns what replays a command of the server, or a step of a process.
func (r *replica) replayer(kind string, processes int, began time.Time, actions map[string]int) func(*Command, *trace.Step) error {
	switch kind {
	case "mutex":
		return r.mutexes(processes, began, actions)
	case "fair":
		checks := map[string]*spec.FairCheck{}
		return func(c *Command, _ *trace.Step) error {
			if c == nil {
				return nil
			}
			r.apply(c)
			script, keys, args := c.of()
			of, all := FairEvents(script, keys, args, c.Calls)
			for i, e := range all {
				if checks[of[i]] == nil {
					checks[of[i]] = spec.NewFairCheck(realSlack)
				}
				e.At, e.Srv = c.At.Sub(began), r.seeFair(of[i])
				actions[e.Action]++
				if err := checks[of[i]].Say(e); err != nil {
					return err
				}
			}
			return nil
		}
	case "rw":
		return r.readWrites(began, actions)
	case "count":
		return r.counts(began, actions)
	}
	return nil
}

// mutexes replays mutexes.
func (r *replica) mutexes(processes int, began time.Time, actions map[string]int) func(*Command, *trace.Step) error {
	x := NewTracer(processes, realSlack, realLate)
	x.Began, x.Part = began, r.part
	x.said = func(_ string, e spec.Said) {
		actions[e.Action]++
		if e.Token > 0 {
			actions[e.Action+" with a token"]++
		}
	}
	failed := func() error {
		if bad := x.Failed(); len(bad) > 0 {
			return errors.New(strings.Join(bad, "\n"))
		}
		return nil
	}
	return func(c *Command, s *trace.Step) error {
		if s != nil {
			x.Step(*s)
			return failed()
		}
		script, keys, args := c.of()
		lines := map[string][]string{}
		for _, key := range keys {
			line, _ := r.m.List(waiting(key))
			lines[key] = slices.Clone(line)
		}
		r.apply(c)
		x.Served(c.At.Sub(began), RequestsOf(script, keys, args, c.answer(script, keys, args), c.Calls), Looker{
			See:  func(key string) *spec.Seen { return r.seeMutex(x, key) },
			Deaf: func(key, uuid string) bool { return r.passed(key, uuid, lines[key]) },
		})
		return failed()
	}
}

// passed reports whether a process stood in the line of a mutex, and does not any more, without having got the mutex: it does not listen.
func (r *replica) passed(key, uuid string, before []string) bool {
	is := func(place string) bool { return strings.HasPrefix(place, uuid+":") }
	after, _ := r.m.List(waiting(key))
	owners, _ := r.m.HKeys(key)
	return slices.ContainsFunc(before, is) && !slices.ContainsFunc(after, is) && !slices.ContainsFunc(owners, is)
}

// answer returns what a script replied of mutexes, as far as it follows from what the script called.
func (c *Command) answer(script string, keys, args []string) func(i, each int) string {
	called := func(words ...string) bool {
		return slices.ContainsFunc(c.Calls, func(call []string) bool {
			return len(call) >= len(words) && strings.EqualFold(call[0], words[0]) && slices.Equal(call[1:len(words)], words[1:])
		})
	}
	return func(i, _ int) string {
		switch script {
		case "free":
			if !called("hdel", keys[i], args[2+i]) {
				return ":3"
			}
		case "release":
			if again := args[4+4*i]; again != "" && !called("rpush", keys[4*i+1], again) && !called("hset", keys[4*i], again) {
				return ":-1"
			}
		}
		return ":0"
	}
}

// readWrites replays read-write locks.
func (r *replica) readWrites(began time.Time, actions map[string]int) func(*Command, *trace.Step) error {
	checks := map[string]*spec.RWCheck{}
	return func(c *Command, _ *trace.Step) error {
		if c == nil {
			return nil
		}
		r.apply(c)
		script, keys, args := c.of()
		of, all := RWEvents(script, keys, args, func(i, _ int) string {
			switch {
			case !strings.HasSuffix(script, "renew") && len(args) > 1 && slices.Contains(SeeRW(r.m, keys[0]).By, args[1]):
				return ":-2"
			case strings.HasSuffix(script, "renew") && c.prolongs(keys[i*len(keys)/(len(args)/2):(i+1)*len(keys)/(len(args)/2)]):
				return ":1"
			}
			return ":0"
		})
		for i, e := range all {
			key := of[i]
			if checks[key] == nil {
				checks[key] = spec.NewRWCheck(realSlack)
			}
			var turn spec.Turn
			e.At = c.At.Sub(began)
			e.Srv, turn = r.seeRW(key)
			e.Java = turn.Whose == "redisson"
			e.Hears = func(place string) bool { // an owner that is called, and not for as long as one that does not listen
				owner, alone := strings.CutSuffix(place, "+")
				return slices.Contains(turn.Called, owner) && !(alone && turn.For > 300*time.Millisecond)
			}
			actions[e.Action]++
			if err := checks[key].Say(e); err != nil {
				return err
			}
		}
		return nil
	}
}

// prolongs reports whether the script prolonged one of some keys, or made it again.
func (c *Command) prolongs(keys []string) bool {
	return slices.ContainsFunc(c.Calls, func(call []string) bool {
		name := strings.ToLower(call[0])
		return (name == "pexpire" || name == "set") && slices.Contains(keys, call[1])
	})
}

// The functions below return what the other server has, or nil if something may have expired there at this moment, or it is not known when it does.

func (r *replica) seeMutex(x *Tracer, key string) *spec.Seen {
	if !r.knows(key) {
		return nil
	}
	seen, ok := x.See(r.m, key), false
	if seen.Left, ok = left(seen.Left); !ok {
		return nil
	}
	return seen
}

func (r *replica) seeFair(key string) *spec.FairSeen {
	if !r.knows(key) {
		return nil
	}
	seen, ok := SeeFair(r.m, key), false
	if seen.Left, ok = left(seen.Left); !ok {
		return nil
	}
	if seen.Noted, ok = left(seen.Noted); !ok {
		return nil
	}
	return seen
}

// seeRW returns the turn beside it, which is always known.
func (r *replica) seeRW(key string) (*spec.RWSeen, spec.Turn) {
	seen, sure := SeeRW(r.m, key), r.knows(key)
	there := func(d *time.Duration) {
		to, ok := left(*d)
		*d, sure = to, sure && ok
	}
	there(&seen.Left)
	there(&seen.Known)
	there(&seen.Lines[0])
	there(&seen.Lines[1])
	for owner, d := range seen.Holds {
		there(&d)
		seen.Holds[owner] = d
	}
	if turn := &seen.Turn; turn.Whose != "none" {
		known := seen.Known // for which it is kept, after it is over
		if turn.Last != "" {
			known -= 2 * time.Second
		}
		sure = sure && known.Abs() > turnLag
		turn.For = max(0, known)
		turn.On = turn.For > 0
	}
	if !sure {
		return nil, seen.Turn
	}
	return seen, seen.Turn
}
