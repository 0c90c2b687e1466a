package lockrt

// A Kind says of which kind a lock is, or what else can be waited for. Its text is for labels and logs, and does not change.
type Kind string

// The kinds.
const (
	KindMutex     Kind = kindMutex     // [Client.Mutex]
	KindFair      Kind = kindFair      // [Client.FairMutex]
	KindWrite     Kind = kindWrite     // the writer of a [Client.RWMutex]
	KindRead      Kind = kindRead      // its readers
	KindSemaphore Kind = kindSemaphore // [Client.Semaphore], whose permits nobody has: they have no ends
	KindPermit    Kind = kindPermit    // [Client.PermitSemaphore]
	KindLatch     Kind = kindLatch     // [Client.CountDownLatch], when it is waited for
	KindMulti     Kind = kindMulti     // [NewMultiLock]
	KindRedLock   Kind = kindRedLock   // [NewRedLock]
)

// A Key is a whole key, as it is in Redis. A function of a program that makes keys for annotations
// returns one if what it returns is not to be escaped; the function then sees to it that different
// things get different keys.
type Key string
