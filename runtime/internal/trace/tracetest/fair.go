package tracetest

import (
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/spec"
)

// FairEvents returns what a script has done for which fair locks, in order.
func FairEvents(script string, keys, args []string, calls [][]string) (of []string, all []spec.FairSaid) {
	add := func(key string, e spec.FairSaid) { of, all = append(of, key), append(all, e) }
	places := func(uuid string, pairs []string) (some []spec.FairPlace) {
		for i := 0; i+1 < len(pairs); i += 2 {
			some = append(some, spec.FairPlace{Owner: uuid + ":" + pairs[i], Wait: number(pairs[i+1])})
		}
		return some
	}
	switch script {
	case "fair_acquire":
		add(keys[0], spec.FairSaid{Action: "Ask", TTL: millis(args[0]), Place: spec.FairPlace{Owner: args[1], Wait: number(args[3])},
			Queued: args[2] != "0", Clock: number(args[4]), Note: args[6], Tokens: number(args[7]), Next: number(args[9])})
	case "fair_release":
		uuid, _ := protocol.ClientOf(args[0])
		add(keys[0], spec.FairSaid{Action: "Release", Place: spec.FairPlace{Owner: args[0], Wait: number(args[1])}, Clock: number(args[2]),
			With: places(uuid, args[4:])})
	case "fair_leave":
		add(keys[0], spec.FairSaid{Action: "Leave", Asker: args[0], Clock: number(args[1]), With: places(args[0], args[3:])})
	case "fair_force_unlock":
		e := spec.FairSaid{Action: "Force", Clock: number(args[0])}
		for _, owner := range args[2:] {
			e.With = append(e.With, spec.FairPlace{Owner: owner})
		}
		add(keys[0], e)
	case "renew":
		for i, key := range keys {
			add(key, spec.FairSaid{Action: "Renew", Place: spec.FairPlace{Owner: args[2*i]}, TTL: millis(args[2*i+1])})
		}
	}
	for i := range all {
		grants(&all[i], of[i], calls)
	}
	return of, all
}

// grants notes, by what a script called, which waiter got a message that it has the lock, and which tokens the script drew. A message that
// no process received was taken back.
func grants(e *spec.FairSaid, key string, calls [][]string) {
	unheard, last := "", int64(0)
	e.Calls = FairCalls(key, calls)
	for _, call := range calls {
		switch name := strings.ToLower(call[0]); {
		case name == "set" && call[1] == counter(key):
			last = number(call[2])
		case publishes(call) && strings.HasPrefix(call[2], "granted ") && strings.HasSuffix(call[2], " of fair "+key):
			uuid := listener(call[1])
			words := strings.Fields(strings.TrimSuffix(call[2], " of fair "+key))
			e.Named = []string{uuid + ":" + words[1]}
			for _, n := range words[5:] {
				e.Named = append(e.Named, uuid+":"+n)
			}
			if first := number(words[4]); first > 0 {
				e.Drawn = append(e.Drawn, spec.Draw{First: first, Last: last})
				last = 0
			}
		case name == "del" && call[1] == key && len(e.Named) > 0:
			unheard, e.Named = e.Named[0], nil
		case name == "del" && call[1] == key && last > 0: // nobody listened to a sharded channel, so there was no message
			e.Drawn = append(e.Drawn, spec.Draw{Last: last})
			last = 0
		}
	}
	if last > 0 {
		e.Drawn = append(e.Drawn, spec.Draw{First: last - e.Tokens + 1, Last: last})
	}
	e.Hears = func(owner string) bool { return owner != unheard }
}

// FairCalls returns the owners to which a script sent the message of Redisson that it is their turn, by what it called.
func FairCalls(key string, calls [][]string) (all []string) {
	for i, call := range calls {
		if !publishes(call) {
			continue
		}
		owner, ok := strings.CutPrefix(call[1], protocol.LockChannel(key)+":")
		if ok && (i == 0 || !publishes(calls[i-1]) || calls[i-1][1] != call[1]) { // in a cluster it may be on both kinds of channels
			all = append(all, owner)
		}
	}
	return all
}

// SeeFair returns a fair lock as a server has it.
func SeeFair(m *miniredis.Miniredis, key string) *spec.FairSeen {
	queue, times, notes := "redisson_lock_queue:{"+key+"}", "redisson_lock_timeout:{"+key+"}", "lockgen_fair:{"+key+"}"
	seen := &spec.FairSeen{Left: m.TTL(key), Noted: m.TTL(notes), Fair: spec.Fair{Until: map[string]int64{}, Notes: map[string]string{}}}
	if owners, _ := m.HKeys(key); len(owners) > 0 {
		seen.Owner = owners[0]
	}
	line, _ := m.List(queue)
	seen.Queue = slices.Clone(line)
	scores, _ := m.SortedSet(times)
	for owner, until := range scores {
		seen.Until[owner] = int64(until)
	}
	fields, _ := m.HKeys(notes)
	for _, field := range fields {
		if value := m.HGet(notes, field); field == "last" {
			seen.Last = value
		} else {
			seen.Notes[field] = value
		}
	}
	if seen.Noted == 0 {
		seen.Noted = time.Hour // nothing is noted, or for ever
	}
	return seen
}
