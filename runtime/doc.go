// Package lockrt grants distributed locks that are kept in Redis, as Redisson keeps them, so that Go and Java programs share them.
//
// Import it as lockrt, the name that generated code uses. A [Mutex] names a key and holds no state. Locking it returns a [Lease]:
// the proof that this process was granted the key, a context that ends when the proof does, and the way to release the key.
//
//	lease, err := client.Mutex("order:42").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock(ctx)
//	return ship(lease.Context())
//
// [Mutex.Do] does the same in one call and also reports a lease that was lost midway.
//
// # What holds for all methods
//
// Making a lock sends nothing. A lock names a key and holds no state: make one for each use, or keep one and share it between
// goroutines. All types are safe for concurrent use. A name has 1,024 bytes at most. It may have a hash tag, as in order:{42}. A
// name whose first opening brace begins no hash tag, as in a{b or {}x, is refused, because a cluster could not unlock it. A cluster
// also refuses a closing brace without an opening one, as in a}b, and every brace in the name of a latch. A call with an unusable name returns a
// [KeyError], one with an unusable option, number, zero value, nil pointer, function or context returns [ErrBadOption]. Neither
// sends anything.
//
// Lock, RLock, Acquire, Wait and Campaign wait until the lock is granted, ctx ends or [WithWait] runs out. ctx becomes an ancestor
// of [Lease.Context]. After an error the caller holds nothing: the Client releases a grant that raced with the end of ctx, or whose
// reply was lost. The error matches the error of ctx, [ErrNotAcquired] after WithWait, [ErrUnavailable] if Redis does not answer,
// [ErrClosed], [ErrWrongType], or is the refusal of Redis. A waiting call waits out an outage for 30s, or for the watchdog or
// lease time if that is longer.
//
// Methods that begin with Try try once and do not wait for others: they fail with ErrNotAcquired, or with ErrUnavailable if Redis
// does not answer. Locking and unlocking a free lock take one round trip each; entering again, or getting a key from a goroutine of
// the same [Client], takes none.
//
// Unlock, Release, CountDown and Resign run to their end: their context, which may be nil, is for values alone, such as those of a
// trace. They return within [Options.OpTimeout], so a plain defer is right. If Redis has not answered by then the outcome is
// unknown, the Client goes on trying in the background, and the key expires at the latest.
//
// Methods that read a state, or change a number, take one round trip. They end with ctx, and after OpTimeout with ErrUnavailable.
// If a change fails, the outcome is unknown; a lost reply never makes it count twice. The Client does not send the change again after
// the call.
//
// # What a lease promises
//
// Redis decides who holds a key. This process decides how long to trust the last answer: from the moment the request was sent, for
// the length of the lease, less a margin of a tenth and at most three seconds, by the monotonic clock. A watchdog renews the lease
// every third of its length.
//
//  1. Exclusion. Two leases of one key are never both trusted, as long as Redis keeps its writes and clocks run at one speed. If
//     the server's clock is set ahead while a process waits, the process may trust a hand-over for too long: by the jump at most,
//     and until its first renewal.
//  2. A loss ends the context. The cause matches [ErrLost] and says why: no renewal was confirmed in time, the key is gone, or
//     somebody took it. It ends before Redis grants the key to another process because nobody renewed it. The client notices at
//     once that a key was taken by force. It notices that a key was deleted, flushed, evicted or overwritten within milliseconds
//     with [TrackingAuto], else at the next renewal. The loss of a permit is always noticed at the next renewal.
//  3. Each request ends in yes, no or unknown. A lost reply counts no hold twice, and takes no lock from another holder. If it
//     leaves a key without a holder, the client withdraws the request, which frees the key.
//  4. No waiter is forgotten. A release hands the key to the process that has waited longest, and passes over a process that died.
//     The key of a holder that died is free when its lease is over.
//  5. Every call ends with its context, except those that run to their end, such as Unlock.
//  6. Nothing is left behind: goroutines, subscriptions, keys, timers. Close waits for all but needless answers. Fencing
//     counters expire ([Options.TokenTTL]).
//  7. Tokens rise. A lease taken [WithFencing] has a larger fencing token than each earlier lease of the key. This also holds after
//     Redis restarted empty or a replica became the master, unless the clock of that server is behind by more than the change took.
//
// Not promised: a process that was stopped for longer than its lease notices the loss when it runs again. A process on a machine
// that was suspended notices it at the next renewal. A Redis that lost its data grants again. No lease stops work that is already
// under way. So call [Lease.Err], which is cheap, before a step that cannot be undone, and send [Lease.Token] with each write, to a
// resource that refuses a token smaller than the largest it has seen.
//
// # Reentry
//
// Locking a key under the context of its own lease enters again: no round trip, one more lease to unlock, and the last Unlock frees
// the key. Under any other context the call waits, in the same goroutine too. So pass Lease.Context to the work under the lock, or
// make a tree of calls one holder by [WithOwner].
//
// # More
//
// docs/details.md of the module says what happens to waiting calls and holders when something fails, how waiters are served, how
// changes behind a holder's back are noticed, and what Sentinel, Cluster and old servers change. docs/redis.md lists the keys and
// channels in Redis and the method of Redisson that each method stands for. The server is Redis from 6.2 on, or Valkey from 8.1 on. Package
// observe has the types of errors, hooks, statistics and snapshots, package locktest what tests need. CHAOS.md beside this file says how
// each failure was tried, with several processes, and how long it took.
package lockrt
