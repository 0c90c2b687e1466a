package tracetest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// fault is the action of an event that nobody knows the effect of.
const fault = "Fault"

// Keys beside a lock. The package protocol builds them in commands alone.
func waiting(key string) string { return "lockgen_waiting:{" + key + "}" }
func counter(key string) string { return "redisson_lock_token:{" + key + "}" }

// Disturbed returns what to replay when something may have been done to a lock.
func Disturbed(key string) Request { return Request{key: key, action: fault} }

func number(word string) int64 {
	n, _ := strconv.ParseInt(word, 10, 64)
	return n
}

func millis(word string) time.Duration { return time.Duration(number(word)) * time.Millisecond }

// A Request is one that a script has dealt with, for one lock.
type Request struct {
	key    string
	action string // of the specification; none if it changed nothing, and Fault if nobody knows what it did
	owner  string
	ttl    string
	line   int // how it asked; -1 if that is not known
	drawn  []draw
}

// Ran returns what a server has run for an owner of a lock, and with which lease.
func (r Request) Ran() (key, action, owner string, ttl time.Duration) {
	owner, _, _ = strings.Cut(r.owner, "+")
	return r.key, r.action, owner, millis(r.ttl)
}

// A draw is of so many fencing tokens for an owner, of which the last is known.
type draw struct {
	owner string
	many  int
	last  int64
}

// draws returns which fencing tokens of a lock a script has drawn, by what it called: those that it sends to the process to which it hands
// the lock, and those of the process that asked for it.
func draws(calls [][]string, key, asker string, many int) (all []draw) {
	held := "" // the owner that was granted the lock since a draw
	for _, call := range calls {
		switch {
		case strings.EqualFold(call[0], "set") && call[1] == counter(key):
			last, _ := strconv.ParseInt(call[2], 10, 64)
			all, held = append(all, draw{asker, many, last}), ""
		case strings.EqualFold(call[0], "hset") && call[1] == key:
			held = call[2]
		case len(all) > 0 && (strings.EqualFold(call[0], "del") && call[1] == key || strings.EqualFold(call[0], "hdel") && call[1] == key && call[2] == held):
			all[len(all)-1].many = 1 // the grant is taken back, since its owner does not listen, or no time to live could be set: it is not known for how many
		case publishes(call) && strings.HasPrefix(call[2], "granted ") && strings.HasSuffix(call[2], " of lock "+key) && len(all) > 0:
			words := strings.Fields(call[2])
			if token, _ := strconv.ParseInt(words[4], 10, 64); token > 0 {
				d := &all[len(all)-1]
				d.owner, d.many = listener(call[1])+":"+words[1], int(d.last-token+1)
			}
		}
	}
	return all
}

// publishes reports whether a script called a command that publishes, which is another one for a sharded channel of a cluster.
func publishes(call []string) bool {
	return strings.EqualFold(call[0], "publish") || strings.EqualFold(call[0], "spublish")
}

// listener returns the client whose channel it is, which names the hash tag of the lock behind the client if it is sharded.
func listener(channel string) (uuid string) {
	uuid, _, _ = strings.Cut(strings.TrimPrefix(channel, protocol.ProcessChannel("")), ":")
	return uuid
}

// Reply returns what a reply says of the lock i, of which it has so many values: the first of them.
func Reply(reply string) func(i, each int) string {
	values := strings.Split(reply, "\r\n")
	return func(i, each int) string {
		if strings.HasPrefix(reply, "*") && 1+i*each < len(values) {
			return values[1+i*each]
		}
		return values[0]
	}
}

// RequestsOf returns what a script has done for which locks, in order, by what it has said of each.
func RequestsOf(script string, keys, args []string, at func(i, each int) string, calls [][]string) (all []Request) {
	add := func(value, key, action, owner, ttl string, line int) {
		if strings.HasPrefix(value, "-") {
			action = fault
		}
		all = append(all, Request{key, action, owner, ttl, line, nil})
	}
	drawing := func(key, place, many string) {
		n, _ := strconv.Atoi(many)
		owner, _, _ := strings.Cut(place, "+")
		all[len(all)-1].drawn = draws(calls, key, owner, n)
	}
	askers := map[string]string{} // of locks: the place of the owner that wants it again
	switch script {
	case "take":
		for i, key := range keys {
			owner, lease := args[i], args[len(args)-1] // one lease of all
			if len(args) == 2*len(keys) {
				owner, lease = args[2*i], args[2*i+1]
			}
			add(at(i, 4), key, "RunAcquire", owner, lease, 0)
		}
	case "acquire":
		for i := 0; 3*i < len(keys); i++ {
			add(at(i, 4), keys[3*i], "RunAcquire", args[5*i+1], args[5*i], int(args[5*i+2][0]-'0'))
			drawing(keys[3*i], args[5*i+1], args[5*i+3])
		}
	case "renew":
		for i, key := range keys {
			add(at(i, 1), key, "RunRenew", args[2*i], args[2*i+1], 0)
		}
	case "free":
		for i, key := range keys[:(len(keys)-1)/2] {
			if value := at(i, 4); value != ":3" { // else somebody is in the wait queue, and nothing was done
				add(value, key, "RunRelease", args[2+i], "", 0)
			}
		}
	case "release":
		for i := 0; 4*i < len(keys); i++ {
			own, again, ttl := args[3+4*i], args[4+4*i], args[5+4*i]
			value := at(i, 4)
			add(value, keys[4*i], "RunRelease", own, "", 0)
			if again != "" {
				askers[keys[4*i]] = again
			}
			if !slices.Contains(keys[4*i+1:], keys[4*i]) { // else what was drawn of it, by whichever release, is said of the last
				_, many, _ := strings.Cut(askers[keys[4*i]], "+")
				many, _, _ = strings.Cut(many, ",")
				drawing(keys[4*i], askers[keys[4*i]], many)
			}
			if again != "" && value != ":-1" {
				add(value, keys[4*i], "RunAcquire", again, ttl, -1)
			}
		}
	case "force_unlock":
		add("", keys[0], fault, "", "", 0)
	}
	return all
}
