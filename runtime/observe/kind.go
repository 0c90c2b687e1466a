package observe

// A Kind names a kind of lock, semaphore or latch. Its text is for labels and logs, and does not change.
type Kind string

// The kinds.
const (
	KindMutex     Kind = "mutex"     // Client.Mutex
	KindFair      Kind = "fair"      // Client.FairMutex
	KindWrite     Kind = "write"     // Client.RWMutex, locked for writing
	KindRead      Kind = "read"      // Client.RWMutex, locked for reading
	KindSemaphore Kind = "semaphore" // Client.Semaphore; its permits are no leases, so no end of them is reported
	KindPermit    Kind = "permit"    // Client.PermitSemaphore
	KindLatch     Kind = "latch"     // Client.CountDownLatch, when a call waits for it
	KindMulti     Kind = "multi"     // NewMultiLock
	KindRedLock   Kind = "redlock"   // NewRedLock
)
