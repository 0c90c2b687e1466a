// Package locks has what package lockrt exports, without its documentation: the [Client], and each kind of lock. Package lockrt defines its types by
// those of this package, and passes each call on to the method of the same name. The exception is Do of package lockrt: it calls Lock, then [Lease.Do], and of permits Acquire, then [Permit.Do]; Do of a Semaphore is passed on.
// Package lockrt also has the Options of a client, their defaults and checks, and the forms of locks for generated code.
//
// A call that acquires is an attempt, see attempt.go. It enters the resource of its key, contends there for a lease in the one wait loop, see
// await.go, and is served in its turn. The state machine of a resource is lineCore, see line.go; a kind of lock is a lineKind. The messages
// between processes arrive in ticketmessages.go. Package quorum counts majorities, and package watchdog decides until when a lease is trusted.
// docs/architecture.md shows the way of one Lock and one Unlock, and has the states.
package locks
