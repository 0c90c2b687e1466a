package transport

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Request is one of the many that one script handles, each independently of the others.
type Request interface {
	// Key is the key that the request is about.
	Key() string
	// Append appends the keys and the arguments of the request to those before it. again says that the request was sent before, and
	// may be done once more later.
	Append(to *protocol.Texts, again bool)
	// Answered reports the answer of the script, or why there is none, once. The request was sent after the time sent for the first
	// time. again says that it was sent more than once: each of these requests may have been done before the answer, and may be done
	// after it. Answered does not block.
	Answered(sent time.Time, reply protocol.Answer, again bool, err error)
}

// A kind is what the requests of a [Batcher] have in common.
type kind struct {
	n      int // its place among those of an outbox
	batch  protocol.Batch
	grants bool // its script may lock: replicas may have to confirm that, and Close waits for late copies
	most   int  // how many requests one script handles
}

// mostReviewed is mostBatched for requests that are in no hurry: few scripts for those of 10,000 waiters. Such a script keeps the server from
// others for about 8 ms, so a client has one of them under way at a time. Waiters that are to ask at the same time need a while to do so: the
// first script is sent after gatherReviews, so that it is full, too.
const (
	mostReviewed  = 4 * mostBatched
	gatherReviews = 10 * time.Millisecond
)
