// Package observe has what programs need that watch locks: hooks and their events, statistics, snapshots of what a process holds and waits for,
// and what Redis says of a lock. Package lockrt has the same types and constants under the same names, so a program that imports lockrt
// needs no import of this package.
//
// Three ways lead here:
//
//   - [Hooks] of lockrt.Options call a function for each event: a call that acquires, a renewal, the end of a lease. Metrics and traces are made of them.
//   - Client.Stats, Client.Snapshot, Client.Process, Client.ProcessOf and Client.Fleet say what happens in this process, and in all.
//   - Inspect, which each kind of lock has, asks Redis who holds a key: it returns a [Standing] or one of its like.
//
// All of them are plain data: a value of this package may be copied, compared field by field and read from many goroutines. Nothing here contacts Redis.
package observe
