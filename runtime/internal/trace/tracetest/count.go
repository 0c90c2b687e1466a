package tracetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// CountEvents returns what a script has done for which semaphores and latches, in order, by what it called. Its reply is empty if that is not
// known.
func CountEvents(script string, keys, args []string, answer string, calls [][]string) (of []string, all []spec.CountSaid) {
	reply := ints(answer)
	request := func(i int, process string) spec.Request {
		return spec.Request{Process: process, Number: number(args[i]), Floor: number(args[i+1]), Keep: millis(args[i+2])}
	}
	add := func(key, channel string, said spec.CountSaid) {
		published := map[string][]string{}
		for _, call := range calls { // the first of several renewals of a semaphore makes what has expired available
			if publishes(call) && call[1] == channel && !slices.Contains(of, key) {
				name := strings.ToLower(call[0])
				published[name] = append(published[name], call[2])
			}
		}
		said.Published = published["publish"]
		if sharded := published["spublish"]; !slices.Equal(sharded, said.Published) { // the same is published on both
			said.Published = append(said.Published, sharded...)
		}
		if said.Reply == nil {
			said.Reply = reply
		}
		if answer == "" && said.Request.Process != "" {
			said.Reply = kept(calls, said.Request)
		}
		said.Found = said.Request.Process != "" && !slices.ContainsFunc(calls, func(call []string) bool {
			switch strings.ToLower(call[0]) {
			case "zscore", "zrangebyscore", "pttl":
				return false
			case "pexpire":
				return call[1] != said.Request.Process // the result is kept for longer
			}
			return true
		})
		of, all = append(of, key), append(all, said)
	}
	switch script {
	case "semaphore_acquire", "permit_acquire":
		said := spec.CountSaid{Action: "Take", Request: request(0, keys[2]), Make: number(args[4])}
		said.Request.Again = args[3] == "1"
		wants := args[6:]
		if script == "permit_acquire" {
			said.Action = "Acquire"
			said.Reply = reply[:min(len(reply), 2)] // the rest is the time to live of the semaphore, which the specification does not have
			for i := 0; i+1 < len(wants); i += 2 {
				said.Wants = append(said.Wants, spec.Want{IDs: ids(wants[i]), TTL: number(wants[i+1])})
			}
		} else {
			for _, n := range wants {
				said.Wants = append(said.Wants, spec.Want{N: number(n)})
			}
		}
		add(keys[0], keys[1], said)
	case "semaphore_release":
		add(keys[0], keys[1], spec.CountSaid{Action: "Give", Request: request(0, keys[2]), Give: number(args[3]), Only: args[5] == "1", Had: args[5] == "2"})
	case "permit_release":
		said := spec.CountSaid{Action: "Release", Wants: []spec.Want{{IDs: ids(args[0])}}, Only: args[2] == "1", Leave: args[3] == "1"}
		if len(keys) > 3 {
			said.Request = request(4, keys[3])
		}
		add(keys[0], keys[1], said)
	case "permit_renew":
		for i := 0; 3*i < len(keys); i++ {
			said := spec.CountSaid{Action: "Renew", Wants: []spec.Want{{IDs: ids(args[1+2*i]), TTL: number(args[2+2*i])}}}
			if i < len(reply) {
				said.Reply = reply[i : i+1]
			}
			add(keys[3*i], keys[3*i+1], said)
		}
	case "permit_count":
		add(keys[0], keys[1], spec.CountSaid{Action: "Look", Make: number(args[1])})
	case "permit_lease":
		// The specification does not have the second number, the time to live of the semaphore.
		add(keys[0], keys[1], spec.CountSaid{Action: "Lease", Reply: reply[:min(len(reply), 1)], Wants: []spec.Want{{IDs: ids(args[0]), TTL: number(args[2])}}})
	case "permit_set":
		add(keys[0], keys[1], spec.CountSaid{Action: "Total", Request: request(0, keys[3]), Make: number(args[3])})
	case "semaphore_set":
		said := spec.CountSaid{Action: "Create", Request: request(0, keys[2]), Make: number(args[3])}
		if args[5] != "0" { // with a time to live, which is not replayed
			said.Action = "Fault"
		}
		add(keys[0], keys[1], said)
	case "semaphore_drain":
		add(keys[0], "", spec.CountSaid{Action: "Drain", Request: request(0, keys[1])})
	case "latch_set":
		add(keys[0], keys[1], spec.CountSaid{Action: "Start", Request: request(0, keys[2]), Make: number(args[3])})
	case "latch_down":
		add(keys[0], keys[1], spec.CountSaid{Action: "Down", Request: request(0, keys[2])})
	case "latch_count":
		add(keys[0], "", spec.CountSaid{Action: "Read"})
	case "latch_delete":
		add(keys[0], keys[1], spec.CountSaid{Action: "Delete", Request: request(0, keys[2])})
	}
	return of, all
}

// ints returns the numbers of a reply.
func ints(reply string) (all []int64) {
	for line := range strings.SplitSeq(reply, "\r\n") {
		if n, is := strings.CutPrefix(line, ":"); is {
			all = append(all, number(n))
		}
	}
	return all
}

// ids returns the ids in a text of ids, each of 16 bytes.
func ids(text string) (all []string) {
	for part := range slices.Chunk([]byte(text), 16) {
		all = append(all, string(part))
	}
	return all
}

// kept returns the result that a script keeps of a request, by what it called.
func kept(calls [][]string, of spec.Request) []int64 {
	for _, call := range calls {
		if strings.EqualFold(call[0], "zadd") && call[1] == of.Process {
			if _, result, is := strings.Cut(call[len(call)-1], "="); is {
				return []int64{number(result)}
			}
		}
	}
	return nil
}

// CountClock returns the time of the server at which a script ran, in ms, by what it called: ok is false if that does not tell.
func CountClock(calls [][]string) (ms int64, ok bool) {
	for _, call := range calls {
		if name := strings.ToLower(call[0]); (name == "zremrangebyscore" || name == "zcount") && len(call) == 4 && call[2] == "-inf" &&
			!strings.HasPrefix(call[3], "(") && call[3] != "+inf" {
			return number(call[3]), true
		}
	}
	return 0, false
}

// SeeCount returns a semaphore or a latch as a server has it.
func SeeCount(m *miniredis.Miniredis, key string) *spec.CountSeen {
	seen := &spec.CountSeen{Taken: map[string]int64{}}
	if value, err := m.Get(key); err == nil {
		seen.Is, seen.N = true, number(value)
	}
	scores, _ := m.SortedSet(protocol.PermitLeases(key))
	for id, over := range scores {
		seen.Taken[id] = int64(over)
	}
	return seen
}

// counts replays semaphores, permits and latches. The reply of a script is known only if the script stores it.
func (r *replica) counts(began time.Time, actions map[string]int) func(*Command, *trace.Step) error {
	checks := map[string]*spec.CountCheck{}
	return func(c *Command, _ *trace.Step) error {
		if c == nil {
			return nil
		}
		r.apply(c)
		script, keys, args := c.of()
		of, all := CountEvents(script, keys, args, "", c.Calls)
		clock, known := CountClock(c.Calls)
		if !known {
			clock = c.At.UnixMilli()
		}
		for i, e := range all {
			key := of[i]
			if checks[key] == nil {
				checks[key] = spec.NewCountCheck()
			}
			e.At, e.Clock = c.At.Sub(began), clock
			if !slices.Contains(of[i+1:], key) {
				e.Srv = SeeCount(r.m, key)
			}
			actions[e.Action]++
			if err := checks[key].Say(e); err != nil {
				return fmt.Errorf("the trace of %q: %w", key, err)
			}
		}
		return nil
	}
}
