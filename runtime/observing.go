package lockrt

import "github.com/lockgen/lockgen/runtime/observe"

// The types of package observe, which documents them.
type (
	Kind            = observe.Kind            // of a lock: its text is for labels and logs
	Hooks           = observe.Hooks           // the functions that a [Client] calls for each event, see [Options]
	AcquireEvent    = observe.AcquireEvent    // one call that acquires
	RenewEvent      = observe.RenewEvent      // one try to renew a key
	EndEvent        = observe.EndEvent        // the end of a lease
	DeadlockEvent   = observe.DeadlockEvent   // a call that is in a deadlock
	Deadlock        = observe.Deadlock        // calls that wait for each other
	DeadlockedCall  = observe.DeadlockedCall  // one of them
	UnreportedEvent = observe.UnreportedEvent // an error that a generated method cannot return
	Outcome         = observe.Outcome         // how a call ended
	Grant           = observe.Grant           // how a call got its lock
	EndReason       = observe.EndReason       // why a lease ended
	Stats           = observe.Stats           // counts, see [Client.Stats]
	CallCount       = observe.CallCount       // of calls of one kind that ended in one way
	WaitBucket      = observe.WaitBucket      // of calls that waited for about as long
	Snapshot        = observe.Snapshot        // the holds and waiting calls of a Client, see [Client.Snapshot]
	HeldLock        = observe.HeldLock        // one key that a process holds
	WaitingCall     = observe.WaitingCall     // one call that waits
	LeaseRef        = observe.LeaseRef        // the owner of a key
	Process         = observe.Process         // the program of a Client, see [Client.Process]
	Holder          = observe.Holder          // the holder that a call waited for, see [Error]
	Fleet           = observe.Fleet           // the holds and waiting calls of all processes, see [Client.Fleet]
	Standing        = observe.Standing        // the state of a key in Redis, see [Mutex.Inspect]
	RWStanding      = observe.RWStanding      // see [RWMutex.Inspect]
	PermitStanding  = observe.PermitStanding  // see [PermitSemaphore.Inspect]
	MemberStanding  = observe.MemberStanding  // see [MultiLock.Inspect]
	RedStanding     = observe.RedStanding     // see [RedLock.Inspect]
	ServerStanding  = observe.ServerStanding  // the state of one server of a [RedLock]
)

// The constants of package observe.
const (
	KindMutex     = observe.KindMutex
	KindFair      = observe.KindFair
	KindWrite     = observe.KindWrite
	KindRead      = observe.KindRead
	KindSemaphore = observe.KindSemaphore
	KindPermit    = observe.KindPermit
	KindLatch     = observe.KindLatch
	KindMulti     = observe.KindMulti
	KindRedLock   = observe.KindRedLock

	OutcomeAcquired  = observe.OutcomeAcquired
	OutcomeBusy      = observe.OutcomeBusy
	OutcomeCancelled = observe.OutcomeCancelled
	OutcomeLost      = observe.OutcomeLost
	OutcomeError     = observe.OutcomeError

	GrantServer = observe.GrantServer
	GrantLocal  = observe.GrantLocal
	GrantRemote = observe.GrantRemote
	GrantShared = observe.GrantShared

	EndReleased    = observe.EndReleased
	EndClosed      = observe.EndClosed
	EndTaken       = observe.EndTaken
	EndElapsed     = observe.EndElapsed
	EndMaxHold     = observe.EndMaxHold
	EndUnconfirmed = observe.EndUnconfirmed
	EndOther       = observe.EndOther

	SnapshotVersion = observe.SnapshotVersion
)
