// Package lockrt grants distributed locks that are kept in Redis, as Redisson keeps them, so
// that Go and Java programs share them.
//
// Import it as lockrt, the name that generated code uses. A [Mutex] names a key and holds no
// state. Locking it returns a [Lease]: the proof that this process was granted the key, a context
// that ends when the proof does, and the one way to give the key back.
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
// # What a lease promises
//
// Redis decides who holds a key. This process only decides for how long to trust the last answer:
// from the moment the request was sent, for the length of the lease, less a margin of a tenth and
// at most three seconds, by the monotonic clock. A watchdog renews the lease every third of its
// length. From this follow:
//
//  1. Exclusion. Two leases of one key are never both trusted, in no two processes, as long as
//     Redis keeps its writes and clocks run at one speed. A server's clock that is set ahead while a process waits
//     for it can make that process trust a hand-over for too long: by the jump at most, and until its first renewal.
//  2. Loss is reported. A lease that cannot be trusted any more, because no renewal was confirmed in
//     time, the key is gone or somebody took it, ends its context with a cause matching [ErrLost]
//     that says why, before anybody else can be granted the key for want of renewal. The holder learns at once
//     of a key that was taken by force, and of one that a restarted server forgot when the connection is
//     back. It learns of one that was deleted, flushed, evicted or overwritten behind its back
//     within milliseconds where the server tells of it, see Notice of changes, else at the next renewal.
//  3. Outcomes are three: yes, no and unknown. A reply that gets lost leaves no key held by nobody
//     for longer than it takes to withdraw the request, counts no hold twice, and takes nobody
//     else's lock away. Every script may be sent twice.
//  4. Nobody waits for nothing. A release hands the key to the process that has waited longest; a
//     holder that died frees its key when its lease is over, and a process that died while it
//     waited is passed over; a message that gets lost delays a waiter until then at most.
//  5. Every call ends with its context, also when Redis does not answer. Unlock and Close run to
//     their end even if a context is cancelled, within [Options.OpTimeout].
//  6. Nothing is left behind: goroutines, subscriptions, keys, timers. Close waits for them. Counters of
//     fencing tokens expire, see [Options.TokenTTL].
//  7. Tokens rise. The fencing token of a lease taken [WithFencing] is larger than that of every earlier
//     lease of the key that has one, also after Redis was restarted empty or a replica took over that
//     had missed the last writes, unless its clock is behind by more than that took.
//
// What is not promised: a process that was stopped for longer than its lease does not know it
// until it runs again, and a Redis that lost its data grants what it had granted before. No lock with a
// lease excludes the effects of work that is already under way. A machine that is suspended may not count the time: Linux stops
// the monotonic clock meanwhile, and to read the one that goes on would take a system call for each look. So once it is awake a lease looks
// trusted until its next renewal is refused, and one of fixed length for as much longer as the machine slept. [Lease.Err] is cheap, ask it before
// what cannot be undone. For both cases there is the token: send [Lease.Token] with each write, and let
// the resource refuse one that is smaller than the largest it has seen.
//
// # The life of a lease
//
//	          Lock             Unlock
//	waiting ───────► trusted ─────────► ended: ErrReleased
//	   │               │ │ ▲
//	   │               │ └─┘ renewed
//	   │               ├──────────────► ended: ErrLost       renewal refused, trust run out, taken by force
//	   │               └──────────────► ended: ErrClosed     client closed; the key expires or is unlocked
//	   └──────────────────────────────► an error, and nothing is held
//
// # When something fails
//
//	what                              who waits for a lock              who holds one
//	a reply is lost                   asks again, gets one hold         nothing; it is renewed over another connection
//	the connection breaks             asks again when it is back        nothing, if it is back in time
//	Redis is stopped, or cut off      waits, for 30s or the lease;      ErrLost before the key expires
//	                                  then ErrUnavailable
//	Redis is back, with its data      is served                         nothing, if it is back in time
//	Redis is back, empty              is served                         ErrLost when it is back
//	Redis has no memory left          waits, for as long                nothing: renewing and unlocking work
//	Redis is a replica now            waits, for as long                ErrLost unless a master is there in time
//	a replica is the master now       is served                         nothing, if that knows of it; else ErrLost at once
//	a permission is missing           its error, at once                ErrLost before the key expires
//	the key holds something else      ErrWrongType                      ErrLost within milliseconds
//	the key is deleted, or taken      is served                         ErrLost within milliseconds
//	the other process dies            is served when its lease is over  -
//	the other process is stopped      is served when its lease is over  ErrLost as soon as it looks again
//	its own context ends              the error of the context          holds it until Unlock
//	the client is closed              ErrClosed                         ErrClosed; the key expires
//
// Unlock says [ErrLost] when the lease was lost, even if nobody noticed until then. An error that says
// neither that nor [ErrReleased] means that Redis did not answer within [Options.OpTimeout]: the client goes on
// trying in the background, and the key expires at the latest. How each of these was tried, with several
// processes, and how long it took, is in CHAOS.md beside this file.
//
// # Waiting
//
// To Redis a [Client] is one owner of a key at a time. Its goroutines queue in the process and hand the key
// to each other. A client whose goroutines have to wait for another one stands, once, in a list
// beside the lock, and listens on one channel for all its keys. The script that releases the lock
// makes the first in the list its owner, for 2 seconds, and tells it; so nobody races and nobody asks
// twice. The new owner counts its trust from the server's time of the hand-over and renews before it
// runs out. If it does not listen any more the next one is taken; if it is gone without the server
// knowing, the 2 seconds are what it costs.
//
// The list and the channel are hints; the truth is the lock, and every waiter asks again when the lease
// that Redis named is over and whenever its subscription was renewed.
//
// # First come, first served
//
// A [FairMutex] is granted in the order in which Redis was asked, whoever asks. There each goroutine that waits is an
// owner of its own in Redisson's queue, and the script that gives the lock back makes the head of that queue its owner
// and tells it, as above; a Java thread at the head hears on its own channel that the lock is free. Those who have waited
// for a second listen to their own channels too.
//
// # Readers and writers
//
// An [RWMutex] is held by one writer or by many readers. Those of one process that read have one hold in Redis
// together, and who joins them sends nothing. A process that has to wait stands in one of two lines in Redis, one
// to read and one to write, which take turns: a writer that unlocks calls all who wait to read, the last reader that
// unlocks calls the first that waits to write. Who was called asks, and nobody else gets the key for 100 milliseconds
// meanwhile. Readers do not pass who waits to write. Whoever finds the key free and in nobody's turn, as when a lease has
// ended or a Java program has unlocked, calls likewise, and has the key if nobody is before it. The head of a line asks every
// 100 milliseconds whatever it hears, the others every second. Those who wait listen to Redisson's channel, too, and
// ask when a Java program says something there.
//
// # Semaphores and latches
//
// A [PermitSemaphore] bounds how many work at once; its permits are leases, with all that is promised of
// them above. A [Semaphore] only counts, so what a process took that died is gone. A [CountDownLatch] lets
// processes wait for others to be done.
//
// Whoever has to wait queues in its process, and the first of them asks Redis, for all of them together: after
// each message, after a release in this process, when a permit expires and when the subscription was renewed;
// and every 5 seconds whatever happens, or twice a second while there is no subscription.
// So a demand for many permits is not overtaken by small ones of the same process. Processes race.
//
// Redisson's counts say how many, not whose, so nobody can see in them what a request did whose reply got
// lost. Redis therefore keeps for two minutes, out of Redisson's sight, what the last requests of each
// client did. A request is sent again for a minute at most. One that the network holds up for longer than two
// minutes, or that was done by a server that then lost what it knew, may count twice or not at all.
//
// # Elections and schedules
//
// An [Election] has one of several candidates lead, and others observe who does; a [Schedule], which [Client.Every] returns, has
// a function run once in each interval, by whichever process is the first. Each is a Mutex with a fencing token, and a key
// beside it. Both go on through outages of Redis and through the loss of the lock, whoever leads or runs then.
//
// # Notice of changes
//
// A lease that is held for 8ms is asked about once, and renewed from then on, over a connection with
// CLIENT TRACKING: the server tells there when anybody else changes the key. Whether the lease is lost is
// asked then, at once, so a false alarm costs a request and nothing else, and an expiry that somebody has
// shortened is mended. From the second alarm between two renewals on, asking waits for 5ms, then for 10ms, then
// for 20ms each time, lest an alarm that does not end costs as much as it can.
//
// When the connection breaks, everything held is renewed at once, over the connection for all commands,
// and again when there is another one. One that is mute is not waited for. Where there is none, because
// the server is older than Redis 6, has no CLIENT TRACKING or does not permit it, or because the
// connection does not speak RESP3, a change is noticed at the next renewal: after a third of the
// watchdog time at most, and not at all on a lease of fixed length. [Options.Logger] has a line, once. A
// server that refused is asked again every minute while something is held. One before Redis 7.0.5 tells
// of our own renewals too, so that each costs one more request.
//
// A lock that is held for less than 8ms sends as many commands as without. Measured with a server of
// Redis 7.0 on two shared cores: the uncontended cycle of 16 goroutines takes 1.00 times as long as
// without, the median of 100 pairs of runs; from deleting a key to the end of its lease's context it takes
// 0.1ms to 0.2ms; 10,000 held locks are renewed by 16 commands a second with and without, which keep the
// server busy for 98ms instead of 31ms every ten seconds.
//
//	go test -run '^$' -bench Tracking ./runtime
//
// # A master that is replaced
//
// When Sentinel names another master, everything held is asked about there at once, not when it is to be renewed, and who
// waits stands in line and listens there. What the new master knows goes on, if it took over before the trust
// in it ended. What it does not know is lost, as replicas follow without being waited for: the holder learns of it when its client hears
// of the new master, which is as soon as anybody else's does, give or take a second, and meanwhile
// somebody else may have been granted the key, with a larger token. A release that the new master
// does not know leaves the key locked until its lease is over.
//
// The same goes for a failover that is planned: for a second or more the old master serves, and the new one does not know of it. So
// does one that was killed and is back, empty, before it has been made a replica, to whoever has not heard of the new one; one
// that is back before another was promoted makes its replicas as empty as it is. Have it stay away for longer than a
// failover takes, or keep its data.
//
// The clocks of a master and its replicas have to agree within a tenth of the shortest lease, and within three seconds: Redis tells a
// replica at what time a key ends, not in how long. One that is promoted with a clock further ahead frees keys that are
// still trusted; one whose clock is behind keeps them for longer.
//
// [Options.Replicas] has replicas confirm each grant before it is one. If all of them do, none is lost by a failover, and the
// old master grants nothing from the moment at which one of them was promoted. If one of two does, the one that Sentinel promotes
// is, as a rule, the one that knows most. It does not make Redis agree on anything: a replica that confirmed may lose its data
// before it is promoted, and a holder that is stopped for longer than its lease is not kept from anything. A [RedLock] needs no replicas.
//
// # Names
//
// A name is of 1,024 bytes at most, on every server. Braces make a hash tag, as in order:{42}; an opening one that does not, as in
// a{b or {}x, is refused without a cluster, too: in one the lock could not be unlocked.
//
// # Redis Cluster
//
// [New] takes a client of a cluster, and [Open] the addresses of some of its servers. All that belongs to one lock
// is in one slot, as with Redisson, which needs names that allow it: a brace that is neither part of a hash tag nor closed, as in
// a{b, {}x or a}b, is refused before anything is sent, and for a latch every brace. Requests go together if
// their keys are in one slot, and keys are in one slot if they share a hash tag, as order:{42}:items and order:{42}:bill do: a
// [MultiLock] takes those in one round trip, and others in one each, at the same time. Nobody waits for another slot: a server that
// does not answer holds up neither locks nor renewals on the others.
//
// When a slot moves, who waits for its keys listens where it is and asks again. While it is on its way, Redis refuses whatever
// concerns keys that may be on either side, as giving a lock back does: that is tried again until the slot has arrived, which for
// Unlock is at most [Options.OpTimeout] until it goes on in the background. When a replica takes over, what is held there is
// asked about at once, as under Sentinel: what it had not heard of is lost, and its holder learns of it. So that a master that fails is noticed
// while nothing is sent to it, a client listens on each that has something which it holds for 10ms or longer, on a channel
// named as those below.
//
// [Options.PubSub] has to say the same as Redisson's shardedSubscriptionMode, since programs that differ in it do not
// hear each other: they still exclude each other, but wait for timers. With sharded channels a client subscribes, while it waits for a key,
// to lockgen_process:<uuid>:{<hash tag>}, too. With plain ones the server cannot tell whether a process that it hands a lock to hears of it;
// one that has died keeps the key for 2 seconds then, and one that lives asks before it trusts what it heard.
//
// There is no notice of changes in a cluster, as if [Options.Tracking] were [TrackingOff]: a key that was deleted is noticed at the
// next renewal. That would take one more connection to each server and, since slots move, tell less than it seems to.
//
// # Servers
//
// Redis from 6.2 on, or Valkey. "make versions" runs what locks promise, and what Redisson's own tests check, on Redis
// 6.2.5 and 8.2.3 and on Valkey 8.1.8 and 9.1.2, one server each; all other tests run on the Redis that is installed, 7.0
// or newer. Before 7.0 there are no sharded channels, and a client of a cluster has to do with plain ones. Before 7.0.5 each
// renewal costs one more request, unless [Options.Tracking] is [TrackingOff]. Before 7.2 a server does not name what a user may not
// do in a script, but in ACL LOG.
//
// # Names in Redis and in Redisson
//
// The file docs/redis.md of the module lists the keys and channels that each kind of lock has in Redis, and which method of this package
// stands for which of Redisson's.
//
// # Reentry
//
// Locking a key under the context of its own lease enters again: no round trip, one more lease to
// unlock, and the last Unlock frees the key. Any other context is a stranger, in the same
// goroutine too, and waits. So hand on [Lease.Context] to what is done under the lock. [WithOwner] makes
// a whole tree of calls one holder, whatever contexts it derives, as a thread is in Java.
package lockrt
