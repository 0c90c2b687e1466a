package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/spec"
)

// traceCounts replays semaphores and latches.
func (w *world) traceCounts() {
	x := &replaying[spec.CountSaid]{w: w, begin: func() check[spec.CountSaid] { return spec.NewCountCheck() }}
	x.fault = func(s *server, key string) spec.CountSaid {
		return spec.CountSaid{At: w.watch.now(), Action: "Fault", Srv: see(s, key, seeCount)}
	}
	x.events = func(s *server, e *event) (of []string, all []spec.CountSaid) {
		of, all = countEvents(e)
		for i := range all {
			all[i].At, all[i].Clock = e.at, s.clock().UnixMilli()
			if !slices.Contains(of[i+1:], of[i]) || e.spoiled(s) {
				all[i].Srv = see(s, of[i], seeCount)
			}
			if e.spoiled(s) {
				all[i].Action = "Fault"
			}
		}
		return of, all
	}
	x.start()
}

// countEvents returns what a script has done for which semaphores and latches, in order.
func countEvents(e *event) (of []string, all []spec.CountSaid) {
	keys, args := e.keys(), e.args()
	reply := ints(e.reply)
	request := func(i int, process string) spec.Request {
		return spec.Request{Process: process, Number: word(args[i]), Floor: word(args[i+1]), Keep: time.Duration(word(args[i+2])) * time.Millisecond}
	}
	add := func(key, channel string, said spec.CountSaid) {
		published := map[string][]string{}
		for _, call := range e.effects { // the first of several renewals of a semaphore makes what has expired available
			if strings.HasSuffix(call[0], "publish") && call[1] == channel && !slices.Contains(of, key) {
				published[call[0]] = append(published[call[0]], call[2])
			}
		}
		said.Published = published["publish"]
		if sharded := published["spublish"]; !slices.Equal(sharded, said.Published) { // the same is published on both
			said.Published = append(said.Published, sharded...)
		}
		if said.Reply == nil {
			said.Reply = reply
		}
		said.Found = said.Request.Process != "" && !slices.ContainsFunc(e.effects, func(call []string) bool {
			return call[0] != "zscore" && call[0] != "zrangebyscore"
		})
		of, all = append(of, key), append(all, said)
	}
	switch e.script {
	case "semaphore_acquire", "permit_acquire":
		said := spec.CountSaid{Action: "Take", Request: request(0, keys[2]), Make: word(args[4])}
		said.Request.Again = args[3] == "1"
		wants := args[6:]
		if e.script == "permit_acquire" {
			said.Action = "Acquire"
			for i := 0; i+1 < len(wants); i += 2 {
				said.Wants = append(said.Wants, spec.Want{IDs: ids(wants[i]), TTL: word(wants[i+1])})
			}
		} else {
			for _, n := range wants {
				said.Wants = append(said.Wants, spec.Want{N: word(n)})
			}
		}
		add(keys[0], keys[1], said)
	case "semaphore_release":
		said := spec.CountSaid{Action: "Give", Request: request(0, keys[2]), Give: word(args[3]), Only: args[5] == "1"}
		if args[5] == "2" { // which nothing in worlds asks for
			said.Action = "Fault"
		}
		add(keys[0], keys[1], said)
	case "permit_release":
		said := spec.CountSaid{Action: "Release", Wants: []spec.Want{{IDs: ids(args[0])}}, Only: args[2] == "1"}
		if len(keys) > 3 {
			said.Request = request(3, keys[3])
		}
		add(keys[0], keys[1], said)
	case "permit_renew":
		for i := 0; 3*i < len(keys); i++ {
			said := spec.CountSaid{Action: "Renew", Wants: []spec.Want{{IDs: ids(args[1+2*i]), TTL: word(args[2+2*i])}}}
			if i < len(reply) {
				said.Reply = reply[i : i+1]
			}
			add(keys[3*i], keys[3*i+1], said)
		}
	case "permit_count":
		add(keys[0], keys[1], spec.CountSaid{Action: "Look", Make: word(args[1])})
	case "permit_lease", "permit_set", "semaphore_set", "semaphore_drain", "latch_delete":
		add(keys[0], "", spec.CountSaid{Action: "Fault"})
	case "latch_set":
		add(keys[0], keys[1], spec.CountSaid{Action: "Start", Request: request(0, keys[2]), Make: word(args[3])})
	case "latch_down":
		add(keys[0], keys[1], spec.CountSaid{Action: "Down", Request: request(0, keys[2])})
	case "latch_count":
		add(keys[0], "", spec.CountSaid{Action: "Read"})
	}
	return of, all
}

func word(w string) int64 {
	n, _ := strconv.ParseInt(w, 10, 64)
	return n
}

// ints returns the numbers of a reply.
func ints(reply string) (all []int64) {
	for line := range strings.SplitSeq(reply, "\r\n") {
		if n, is := strings.CutPrefix(line, ":"); is {
			all = append(all, word(n))
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

// seeCount returns a semaphore or a latch as a server has it.
func seeCount(m *miniredis.Miniredis, key string) *spec.CountSeen {
	seen := &spec.CountSeen{Taken: map[string]int64{}}
	if value, err := m.Get(key); err == nil {
		seen.Is, seen.N = true, word(value)
	}
	scores, _ := m.SortedSet(protocol.PermitLeases(key))
	for id, over := range scores {
		seen.Taken[id] = int64(over)
	}
	return seen
}
