// Package locks has the [Client], and what its calls do for each kind of lock: how a call begins, what it contends for, and what it returns.
// Package lockrt defines the types that users name by those of this package and its neighbours, documents them, and passes each call on to the
// method of the same name. The exception is Do of package lockrt: it calls Lock, then Do of the lease, and of permits Acquire, then [Permit.Do];
// Do of a Semaphore is passed on. Package lockrt also has the Options of a client, their defaults and checks, and the forms of locks for
// generated code.
//
// docs/architecture.md shows the way of one Lock and one Unlock, and has the states.
package locks
