package spec

import (
	"fmt"
	"slices"
	"time"
)

// gone replays the end of a lease.
func (c *RedTrace) gone(e RedTold) string {
	place, has := c.leases[e.Lease]
	if !has {
		c.over[e.Lease] = true
		return ""
	}
	r, i := c.owned[place].round, place.server
	pr, x := c.s.Proc[r.p], c.s.Slot[r.p][i]
	switch {
	case !e.Granted && (x.St == "part" || x.St == "yes" && pr.St != "idle"):
		c.over[e.Lease] = true
		c.ended = append(c.ended, e.Lease)
	case x.St == "part" && r.freed:
		c.over[e.Lease] = true // it passes, or ends
	case x.St == "part" && c.now(r.passed):
		c.ends(r, i)
	case x.St == "part" || x.St == "yes" && pr.St == "raises":
		return fmt.Sprintf("round %d is %s, and gives back a part of it", r.id, pr.St)
	default:
		c.back(r, i)
	}
	return ""
}

// round replays an event of a round.
func (c *RedTrace) round(r *redRound, e RedTold) string {
	p, i := r.p, e.Server
	pr := &c.s.Proc[p]
	state := fmt.Sprintf("the round is %s, and has %d parts that are trusted", pr.St, len(first(c.s.parts(p))))
	switch e.Action {
	case "Asks":
		if !c.now(r.began) || r.asked[i] {
			return "it asks the server once, when it begins"
		}
		r.asked[i] = true
	case "Has", "Refused":
		if c.s.Slot[p][i].St != "asks" {
			return fmt.Sprintf("the server was not asked: %v", c.s.Slot[p][i])
		}
		return c.answer(r, e)
	case "Elected":
		switch {
		case c.do("Elected", p, -1, 0):
		case pr.St == "asks" && r.granted >= RedMost(c.b.Servers): // some have ended
			*pr = RedProc{St: "raises"}
		default:
			return state
		}
	case "Win":
		if pr.St != "raises" || e.Token < int64(pr.Token) {
			return fmt.Sprintf("%s, and the token %d", state, pr.Token)
		}
		pr.Token = int(e.Token)
		for i, x := range c.s.Slot[p] {
			if x.St == "part" && x.Token < pr.Token && c.knows(i, e.Token) {
				c.do("Raise", p, i, 0)
			}
		}
		if !c.do("Win", p, -1, 0) {
			return state + ", or a server of these does not know the token"
		}
		r.won = true
	case "AskAgain":
		if c.parts[p][i].lease != nil {
			return "it has the part"
		}
		if !c.do("AskAgain", p, i, 0) {
			if !c.now(r.done) {
				return state
			}
			c.s.Slot[p][i].St = "asks" // it ended at this moment
		}
		c.parts[p][i].again = true
	case "Admit":
		return c.admit(r, e)
	case "Free":
		if r.freed = true; pr.St != "holds" {
			return state
		}
	case "Pass":
		i := slices.IndexFunc(c.parts[p], func(x redPart) bool { return x.owner == e.Owner && x.lease != nil })
		if i < 0 || !r.freed && !c.now(r.passed) || c.s.Slot[p][i].St != "part" {
			return "it is no part of a lease that is unlocked"
		}
		r.freed, r.passed = false, c.at
		x := &c.parts[p][i]
		delete(c.leases, x.lease)
		x.lease = e.Lease
		c.leases[e.Lease] = redPlace{i, x.owner}
		if c.over[e.Lease] {
			c.ended = append(c.ended, e.Lease)
		}
	case "End":
		return c.end(r)
	default:
		return "there is no such action"
	}
	return ""
}

func first[A, B any](a A, _ B) A { return a }

// knows reports whether a server knows a token, or may have forgotten it.
func (c *RedTrace) knows(server int, token int64) bool { return c.known[server] >= token || c.faulty }

// answer replays the answer of a server in a round.
func (c *RedTrace) answer(r *redRound, e RedTold) string {
	p, i := r.p, e.Server
	if e.Action == "Refused" || e.Lease == nil {
		c.run(p, i, len(c.s.Proc), 0)
		_ = c.do("Answer", p, i, 0) || c.do("TooLate", p, i, 0) || c.do("Admit", p, i, 0)
		return ""
	}
	place := redPlace{i, e.Owner}
	o := c.owned[place]
	if o == nil || !o.granted {
		return "the server has not granted it"
	}
	if o.round != nil {
		return fmt.Sprintf("it is a part of round %d", o.round.id)
	}
	c.run(p, i, -1, e.Token)
	x := &c.parts[p][i]
	x.lease, x.owner, o.round = e.Lease, e.Owner, r
	c.leases[e.Lease] = place
	c.s.Slot[p][i].Age = int(c.at - o.asked)
	r.granted++
	switch {
	case c.s.Proc[p].St == "asks":
		c.do("Answer", p, i, o.until-o.asked)
	case c.do("TooLate", p, i, 0):
		x.owed = !r.won // else it is about to join the lease, which has ended
	}
	switch {
	case !c.over[e.Lease]:
	case c.s.Slot[p][i].St == "back":
		c.back(r, i)
	default:
		c.ended = append(c.ended, e.Lease)
	}
	return ""
}

// admit replays that a late part joins the lease.
func (c *RedTrace) admit(r *redRound, e RedTold) string {
	place, has := c.leases[e.Lease]
	if !has || c.owned[place].round != r || c.s.Slot[r.p][place.server].St != "yes" || c.s.Proc[r.p].St != "holds" {
		return "no lease waits for it"
	}
	i, o := place.server, c.owned[place]
	switch token := int64(c.s.Proc[r.p].Token); {
	case !c.s.trusts(r.p):
		return "it joins a lease that is not trusted"
	case !c.knows(i, token):
		return fmt.Sprintf("the server knows the token %d, and not %d", c.known[i], token)
	}
	c.do("Admit", r.p, i, o.until-o.asked)
	return ""
}

// end replays the end of a round or of its lease.
func (c *RedTrace) end(r *redRound) string {
	was := slices.Clone(c.s.Slot[r.p])
	if c.s.Proc[r.p].St == "idle" {
		return "it has ended before"
	}
	c.do("End", r.p, -1, 0)
	r.freed, r.done = false, c.at
	for i, x := range c.s.Slot[r.p] {
		if part := &c.parts[r.p][i]; part.lease == nil || x.St != "back" {
			continue
		} else if c.over[part.lease] {
			c.back(r, i)
		} else {
			part.owed = !r.won || was[i].St == "part" // else the call is about to have it join
		}
	}
	return ""
}

// owner replays an event of an owner at a server.
func (c *RedTrace) owner(e RedTold) string {
	place := redPlace{e.Server, e.Owner}
	o := c.owned[place]
	if o == nil {
		o = &redOwned{}
		c.owned[place] = o
	}
	var slot *RedSlot
	if o.round != nil {
		slot = &c.s.Slot[o.round.p][e.Server]
	}
	switch e.Action {
	case "Asks", "Joins", "Sent", "SentAgain":
		o.asked = c.at
	case "RunAcquire":
		if e.Granted {
			o.reach = max(o.reach, o.asked+e.TTL)
		}
	case "Granted", "Handed":
		if e.Trust > max(0, o.reach-c.at)+c.late && e.Action == "Granted" {
			return fmt.Sprintf("it may be trusted for %v", o.reach-c.at)
		}
		o.granted, o.until = true, max(o.until, c.at+e.Trust)
	case "Renew", "Prolongs":
		if o.sent = append(o.sent, c.at); slot != nil {
			c.do("Renew", o.round.p, e.Server, 0)
		}
	case "RunRenew":
		if !e.Granted || len(o.sent) == 0 {
			break
		}
		if o.reach = max(o.reach, o.sent[len(o.sent)-1]+e.TTL); slot != nil {
			c.s.Srv[e.Server].Owner = o.round.p
			c.do("RunRenew", o.round.p, e.Server, 0)
		}
	case "Renewed":
		if e.Trust > max(0, o.reach-c.at)+c.late {
			return fmt.Sprintf("it may be trusted for %v", o.reach-c.at)
		}
		if o.until = max(o.until, c.at+e.Trust); slot != nil && slot.St == "part" && !c.do("Renewed", o.round.p, e.Server, o.until-c.at+time.Duration(slot.Of)) {
			slot.Trust = max(slot.Trust, int(o.until-c.at)) // an earlier renewal, or one before the lease
		}
	}
	return ""
}
