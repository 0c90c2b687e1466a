// Package resource has one key in this process, for all kinds of locks: what waits for it, what this process asks of Redis, and what it has there.
//
// A call enters the resource of its key, which a [Registry] has, and contends there for a lease in the one wait loop, see await.go. [LineCore] is
// the state machine of all locks: the queue is in line.go, the tickets are in ticket.go, the requests in acquire.go, the messages in
// ticketmessages.go, the grants in grant.go, and the releases in release.go. A kind of lock decides what differs: it is a [LineKind], see package policy. Package engine has the states and
// judgments, which know nothing of Redis.
package resource
