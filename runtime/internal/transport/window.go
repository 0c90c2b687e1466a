package transport

import "time"

// This file decides how many scripts the senders of a client have under way at once, by the number of callers and by how long an answer takes. All
// figures were measured with two processors, which the client and the server share.

// mostBatched is how many requests one script handles at most: enough to make the round trip cheap, few enough that the
// server is not kept from others for longer than a fraction of a millisecond.
const mostBatched = 128

// Sizes of a crowd: how many requests are under way at once, see [crowd].
const (
	mostFew    = 8   // up to so many callers, each has a script of its own: they would wait for each other's answers
	mostSmall  = 24  // up to so many, more scripts do not help, however long an answer takes
	leastLarge = 192 // from so many on, a script that is sent without turns waits until it is fuller
)

const (
	// soon is how long an answer takes at most of a server that is near, while the client has an idle processor; soonEach is what each caller of
	// a crowd adds to that.
	soon     = 500 * time.Microsecond
	soonEach = 10 * time.Microsecond

	someWait    = 4 // requests that are worth a script of their own
	crowdParts  = 4 // scripts under way to a server that is near, each for one part of the crowd
	mostSending = 8 // scripts under way to others, and where each is full
	mostApart   = 4 // scripts at a time whose requests a goroutine of their own sends one after the other
)

// another reports whether one more script is sent beside others, for so many requests that wait. A request that waits has its answer one answer
// later. So it waits only where the scripts are what takes the time, and are cheaper by that: a crowd has as many scripts under way, each when a
// part of the crowd waits. With fewer scripts the client and the server wait for each other in turns, and with smaller ones both have more work.
func (t *Transport) another(others, waiting int) bool {
	crowd := t.crowd.size()
	switch {
	case others == 0 || others < mostSending && waiting >= mostBatched:
		return true
	case crowd <= mostFew:
		return others < mostFew
	case crowd <= mostSmall || t.near():
		return others < crowdParts && waiting >= t.part()
	}
	return others < mostSending && waiting >= max(someWait, crowd/mostSending)
}

// part returns how many requests are the part of a crowd for which one script is sent.
func (t *Transport) part() int { return min(max(someWait, t.crowd.size()/crowdParts), mostBatched) }

// near reports whether answers come soon: the server is near, and this process has a processor for them. A process whose processors have
// other work learns of an answer late, since Go looks for what has come every 10 ms only.
func (t *Transport) near() bool {
	return t.pace.typical() < soon+time.Duration(t.crowd.size())*soonEach
}

// takesTurns reports whether the senders take turns: those of a crowd do whose server is near. Else the way to the server is what takes the time. Each
// server of a cluster has senders of its own.
func (t *Transport) takesTurns() bool {
	return t.cluster == nil && t.crowd.size() > mostFew && t.near()
}

// yields reports whether a sender that takes no turns lets all goroutines run once that can, so that those that are about to ask go with its script.
// Where answers take long, a request that misses a script waits for long; and the scripts of a large crowd are fuller by that.
func (t *Transport) yields() bool {
	crowd := t.crowd.size()
	return crowd >= leastLarge || crowd > mostFew && t.pace.typical() >= soon
}
