package observe

import "time"

// A Standing is the state of a key in Redis at one moment. It may have changed by the time it is
// read.
type Standing struct {
	Owner string // "<uuid>:<number>" of the holder; empty if the key is free
	Ours  bool   // the owner is the inspecting Client
	Java  bool   // the owner is no Client of this library
	// Count is the hold count: of the goroutines of this Client if it is ours, 0 if it lingers; of a Java thread as Redis has it; and 1 of
	// another Client, which counts for itself.
	Count int
	TTL   time.Duration // time to live of the key without a renewal; negative: for ever; 0: it is free
	// Waiting is how many Clients are in the wait queue. Of a FairMutex it is the number of waiters, each goroutine and each Java thread, and
	// of another Client that holds the key, also the goroutines that have had it in the same row.
	Waiting   int
	Listening int // subscriptions to Redisson's channel of the key: about one for each Java program that waits
}

// An RWStanding is the state of a read-write lock in Redis at one moment. It may have changed by the time it is read.
type RWStanding struct {
	Writer  string   // "<uuid>:<number>" of the writer; empty if there is none
	Readers []string // likewise, of the readers; also of dead ones while others go on reading
	// WriteCount and ReadCount are how many leases this Client has of each kind. Another Client counts its own. Redisson's getHoldCount.
	WriteCount, ReadCount int
	TTL                   time.Duration // time to live of the key without a renewal; negative: for ever; 0: it is free
	Listening             int           // subscriptions to Redisson's channel of the key: about one for each program that waits
}

// A PermitStanding is the state of a PermitSemaphore in Redis at one moment, with the permits of this Client.
type PermitStanding struct {
	Total     int // permits, taken or not
	Available int // less than 0 if more are taken than there are in all
	Acquired  int // taken permits, in all processes
	Ours      int // those of them that this Client has
	Waiting   int // calls of this Client that wait
}

// A RedStanding has the states of the key of a RedLock on its servers, each at one moment.
type RedStanding struct {
	Majority int // how many servers are a majority: a holder has the lock on that many, or on more
	Held     int // on how many servers the key is held, by one holder or by several Clients that are still trying
	Ours     int // on how many of these the Clients of this RedLock hold it
	Servers  []ServerStanding
}

// A ServerStanding is the answer of one server of a RedLock, or its error.
type ServerStanding struct {
	Standing

	Err error // the state of this server is unknown then
}

// A MemberStanding is the state of one member of a MultiLock. One of the pointers is set, according to the kind.
type MemberStanding struct {
	Key     string
	Kind    Kind            // "" of a Locker of another package that has no method Inspect like that of a Mutex
	Lock    *Standing       // of [KindMutex] and [KindFair]
	RW      *RWStanding     // of [KindWrite] and [KindRead]
	Permits *PermitStanding // of [KindPermit]
	Red     *RedStanding    // of [KindRedLock]
}
