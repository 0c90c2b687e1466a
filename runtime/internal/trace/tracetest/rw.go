package tracetest

import (
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/spec"
)

// RWEvents returns what a script has done for which read-write locks, in order.
func RWEvents(script string, keys, args []string, at func(i, each int) string) (of []string, all []spec.RWSaid) {
	add := func(key string, e spec.RWSaid, ttl string) {
		e.TTL = millis(ttl)
		if e.Side == "" {
			e.Side = "read"
			if _, writes := protocol.WriterOf(e.Owner); writes {
				e.Side = "write"
			}
		}
		of, all = append(of, key), append(all, e)
	}
	switch script {
	case "rw_read":
		e := spec.RWSaid{Action: "Ask", Owner: args[1], Granted: at(0, 1) == ":-2"}
		if args[3] != "0" {
			e.Place, e.Lasts = args[1]+args[4], millis(args[3])
		}
		if args[2] != "" {
			e.Action = "Fault" // under what it writes
		}
		add(keys[0], e, args[0])
	case "rw_write":
		e := spec.RWSaid{Action: "Ask", Owner: args[1], Granted: at(0, 2) == ":-2"}
		if args[2] != "0" {
			e.Place, e.Lasts = args[1]+args[3], millis(args[2])
		}
		add(keys[0], e, args[0])
	case "rw_read_release", "rw_write_release":
		add(keys[0], spec.RWSaid{Action: "Release", Owner: args[0]}, "")
	case "rw_read_renew", "renew":
		each := len(keys) / (len(args) / 2)
		for i := range len(args) / 2 {
			if at(i, 1) == ":1" {
				add(keys[each*i], spec.RWSaid{Action: "Renew", Owner: args[2*i]}, args[2*i+1])
			}
		}
	case "rw_yield":
		add(keys[0], spec.RWSaid{Action: "Yield"}, args[0])
	case "rw_force_unlock":
		add(keys[0], spec.RWSaid{Action: "Fault"}, "")
	}
	return of, all
}

// SeeRW returns a read-write lock as a server has it.
func SeeRW(m *miniredis.Miniredis, key string) *spec.RWSeen {
	readers, writers, turn := "lockgen_reader:{"+key+"}", "lockgen_writer:{"+key+"}", "lockgen_turn:{"+key+"}"
	seen := &spec.RWSeen{RW: spec.RW{Mode: "free", Turn: spec.NoTurn}, Left: m.TTL(key), Holds: map[string]time.Duration{}}
	if mode := m.HGet(key, "mode"); mode != "" {
		seen.Mode = mode
	}
	fields, _ := m.HKeys(key)
	for _, field := range fields {
		hold := "{" + key + "}:" + field + ":rwlock_timeout:1"
		if _, writes := protocol.WriterOf(field); writes {
			seen.By = append(seen.By, field)
		} else if m.Exists(hold) {
			seen.By = append(seen.By, field)
			seen.Holds[field] = m.TTL(hold)
		} else if field != "mode" {
			seen.Lapsed = append(seen.Lapsed, field)
		}
	}
	slices.Sort(seen.By)
	seen.Readers, _ = m.List(readers)
	seen.Writers, _ = m.List(writers)
	seen.Lines = [2]time.Duration{m.TTL(readers), m.TTL(writers)}
	if value, _ := m.Get(turn); value != "" {
		words := strings.Fields(value)
		seen.Known = m.TTL(turn)
		seen.Turn = spec.Turn{Whose: words[0], On: true, For: seen.Known}
		if len(words) > 1 {
			seen.Turn.Last, seen.Turn.Called = words[1], words[2:]
			seen.Turn.For = max(0, seen.Known-2*time.Second)
			seen.Turn.On = seen.Turn.For > 0
			slices.Sort(seen.Turn.Called)
		}
	}
	return seen
}
