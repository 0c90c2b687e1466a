package observe

import "time"

// Stats are counts of a Client since it was made, for metrics. They are not read at one moment: a lock that is acquired
// meanwhile may be in one count and not yet in another.
type Stats struct {
	Held    int // keys that this process holds in Redis; also those that linger, see lockrt.WithLinger
	Waiting int // calls that wait for others

	Renewals        uint64 // leases renewed
	RenewalFailures uint64 // tries to renew that failed, or were refused while the lease had not ended
	Losses          uint64 // leases that ended with ErrLost
	HandOversLocal  uint64 // from one call of this process to the next, without a request to Redis
	HandOversRemote uint64 // from another process to this one

	ResponseTime time.Duration // how long the servers take for an answer, without waits for replicas, smoothed over the latest ones; 0 before the first one
	// SentAgain counts the commands that the client sent again at once, over another connection, since an answer did not come in time or the connection
	// broke. It leaves out what is repeated after a pause, see lockrt.Options.Retry.
	SentAgain uint64

	// Waits has the times of the calls that got their lock without reentry, of a MultiLock the time of each part. WaitSum is the sum.
	Waits   []WaitBucket
	WaitSum time.Duration

	// Calls has the number of calls of each kind with each outcome, in the order of kinds and outcomes. It omits
	// combinations that did not occur. A call for a MultiLock is one call.
	Calls []CallCount
}

// A CallCount counts the calls of one kind that ended in one way.
type CallCount struct {
	Kind    Kind
	Outcome Outcome
	Count   uint64
}

// A WaitBucket counts the calls that took longer than UpTo of the bucket before, and up to its own.
type WaitBucket struct {
	UpTo  time.Duration // doubling from 128µs; the last has no bound and the largest Duration
	Count uint64
}
