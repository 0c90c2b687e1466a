package transport

import "time"

// This file decides when one more script is sent beside those under way, by the number of requests and by how long an answer takes. The bounds hold for
// each group of scripts: those of an outbox whose senders take turns, those of one kind without turns, those of one slot of a cluster. All figures were
// measured with two processors, which the client and the server share.

// mostBatched is how many requests one script handles at most: enough to make the round trip cheap, few enough that the
// server is not kept from others for longer than a fraction of a millisecond.
const mostBatched = 128

// Sizes of a crowd, see [crowd]: the requests that wait or are under way. A caller of several keys at once counts once for each key.
const (
	mostFew    = 8   // up to so many requests, each has a script of its own: they would wait for each other's answers
	mostSmall  = 24  // up to so many, more scripts do not help, however long an answer takes
	mostSpread = 128 // from so many on, full scripts do more than many connections
	leastLarge = 192 // from so many on, a sender without a turn lets other goroutines run once before it sends
)

const (
	// An answer is near if it takes less than soon, and what the client needs for the crowd. So a very large crowd takes a server for near that is far
	// for a few callers.
	soon = 500 * time.Microsecond

	someWait    = 4 // requests that are worth a script of their own
	crowdParts  = 4 // scripts under way to a server that is near, each for one part of the crowd
	mostSending = 8 // scripts under way to other servers, and to any server if each script is full
	mostApart   = 4 // calls that are aside, from which on a sender sends refused requests one by one itself
)

// another reports whether one more script is sent beside others, the scripts under way, for so many requests that wait. A request that waits has its
// answer one answer later. So it waits only if a fuller script saves more than that: a crowd has a few scripts under way, each for a part of the crowd.
// With fewer scripts the client and the server wait for each other, and with smaller ones both have more work.
func (t *Transport) another(others, waiting int) bool {
	crowd := t.crowd.size()
	switch {
	case others == 0 || others < mostSending && waiting >= mostBatched:
		return true
	case t.few():
		return others < mostFew
	case crowd <= mostSmall || t.near():
		return others < crowdParts && waiting >= t.part()
	}
	return others < mostSending && waiting >= max(someWait, crowd/mostSending)
}

// few reports whether so few requests are under way that each has a script of its own.
func (t *Transport) few() bool { return t.crowd.size() <= mostFew }

// spread reports whether each request has a script and a direct connection of its own, while there are connections: those of a crowd have that whose
// requests over the shared connection wait for a processor.
func (t *Transport) spread() bool { return t.crowd.size() < mostSpread && t.direct.spread() }

// part returns how many requests are the part of a crowd for which one script is sent.
func (t *Transport) part() int { return min(max(someWait, t.crowd.size()/crowdParts), mostBatched) }

// near reports whether answers are fast for the size of the crowd: the server is near, and this process has a processor for them. A process whose
// processors have other work learns of an answer late, since Go looks for what has come every 10 ms only.
func (t *Transport) near() bool {
	return !t.direct.spread() && t.pace.typical() < soon+t.crowd.handling()
}

// takesTurns reports whether the senders take turns: those of a crowd do whose server is near. Else the way to the server is what takes the time. Each
// server of a cluster has senders of its own.
func (t *Transport) takesTurns() bool {
	return t.cluster == nil && !t.few() && t.near()
}

// yields reports whether a sender that takes no turns lets all goroutines run once that can, so that those that are about to ask go with its script.
// Where answers take long, a request that misses a script waits for long; and the scripts of a large crowd are fuller by that.
func (t *Transport) yields() bool {
	crowd := t.crowd.size()
	return crowd >= leastLarge || !t.few() && !t.spread() && t.pace.typical() >= soon
}
