package spec

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A RedSaid is an event of a trace of a RedLock in real time: what becomes of its parts, each of which has a [Check] of its own server, and
// of the whole. The actions are those of RedLock.tla, as far as they are of the whole:
//
//	Part     a process trusts in a part from now, for Trust at most, with a token or 0; or for longer than before
//	Ends     it does not any more
//	Knows    a server has the token as the largest that it drew or that was written to it
//	Elected  the caller of a process has the lock, for Trust at most
//	Fault    a server may have forgotten
type RedSaid struct {
	At      time.Duration // since the trace began
	Action  string
	Process int
	Server  int
	Owner   string // of a part
	Trust   time.Duration
	Token   int64
}

func (e RedSaid) String() string {
	return fmt.Sprintf("%v %s of process %d at server %d, %q, trusted for %v with the token %d", e.At, e.Action, e.Process, e.Server, e.Owner, e.Trust, e.Token)
}

// A RedPart is what a process trusts in of a server.
type RedPart struct {
	Owner string
	Until time.Duration
	Token int64
	Ended time.Duration // when it said that it does not any more, or 0
}

// A RedCheck replays the trace of one RedLock, event by event, while it happens: a whole has a majority of parts, is trusted for no longer than
// a majority of them, and has a token that is no smaller than those of a majority, and that a majority of the servers know.
type RedCheck struct {
	servers int
	parts   map[[2]int]RedPart // by process and server
	known   map[int]int64      // tokens, by server
	faulty  bool               // a server may have forgotten tokens
	said    []RedSaid
}

// NewRedCheck returns a check of a trace of a RedLock on so many servers.
func NewRedCheck(servers int) *RedCheck {
	return &RedCheck{servers: servers, parts: map[[2]int]RedPart{}, known: map[int]int64{}}
}

// Say replays the next event. It fails if that is none of the protocol.
func (c *RedCheck) Say(e RedSaid) error {
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	at := [2]int{e.Process, e.Server}
	part, has := c.parts[at]
	switch e.Action {
	case "Part":
		until := e.At + e.Trust
		switch {
		case !has || part.Owner != e.Owner:
			part = RedPart{Owner: e.Owner, Until: until, Token: e.Token}
		case part.Ended == 0:
			part.Until = max(part.Until, until)
		}
		c.parts[at] = part
	case "Ends":
		if has && part.Owner == e.Owner && part.Ended == 0 {
			part.Ended = max(e.At, 1)
			c.parts[at] = part
		}
	case "Knows":
		c.known[e.Server] = e.Token
	case "Fault":
		c.faulty = true
	case "Elected":
		if wrong := c.elected(e); wrong != "" {
			return rejected(c.said, []string{wrong}, c.parts)
		}
	default:
		return rejected(c.said, []string{"there is no such action"}, c.parts)
	}
	return nil
}

// elected returns what is wrong with a whole.
func (c *RedCheck) elected(e RedSaid) string {
	most := RedMost(c.servers)
	var until []time.Duration
	small, know := 0, 0
	for _, at := range slices.SortedFunc(maps.Keys(c.parts), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		part := c.parts[at]
		if at[0] != e.Process || part.Until < e.At || part.Ended > 0 && part.Ended < e.At {
			continue
		}
		until = append(until, part.Until)
		if part.Token <= e.Token {
			small++
		}
	}
	for _, token := range c.known {
		if token >= e.Token {
			know++
		}
	}
	if len(until) < most {
		return fmt.Sprintf("it has %d parts of %d", len(until), c.servers)
	}
	slices.SortFunc(until, func(a, b time.Duration) int { return int(b - a) })
	switch {
	case e.At+e.Trust > until[most-1]:
		return fmt.Sprintf("it may be trusted for %v", until[most-1]-e.At)
	case e.Token > 0 && small < most:
		return fmt.Sprintf("%d parts have a token that is not larger", small)
	case e.Token > 0 && know < most && !c.faulty:
		return fmt.Sprintf("%d servers know of the token", know)
	}
	return ""
}
