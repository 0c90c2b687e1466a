// Package observe has the types for observing locks: hooks and their events, statistics, snapshots of the holds and
// waiting calls of a process, the state of a lock in Redis, and the errors of calls. Package lockrt has the same types and constants under
// the same names, so a program that imports lockrt needs no import of this package.
//
// Four ways lead here:
//
//   - [Hooks] of lockrt.Options call a function for each event: a call that acquires, a renewal, the end of a lease. Metrics and traces are made of them.
//   - Client.Stats, Client.Snapshot, Client.Process, Client.ProcessOf and Client.Fleet show the state of this process, and of all.
//   - Inspect, which each kind of lock has, asks Redis for the holder of a key: it returns a [Standing] or a similar type.
//   - An Error of a call that did not get a lock has its [Holder], if the Client knows it.
//
// All of them are plain data: a value of this package may be copied, compared field by field and read from many goroutines. Nothing here contacts Redis.
package observe
