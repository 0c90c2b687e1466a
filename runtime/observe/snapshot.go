package observe

import "time"

// SnapshotVersion is the version of the JSON of a [Snapshot]. Fields may be added without a new version.
const SnapshotVersion = 1

// A Snapshot has the holds and waiting calls of one Client. It is not taken at one moment: a lock that changes hands
// meanwhile may be missing, or be there twice.
type Snapshot struct {
	Version int           `json:"version"` // SnapshotVersion
	At      time.Time     `json:"at"`      // when it was taken, by the clock of the process
	Process Process       `json:"process"`
	Held    []HeldLock    `json:"held,omitempty"`    // the longest held first
	Waiting []WaitingCall `json:"waiting,omitempty"` // the longest waiting first
	Omitted int           `json:"omitted,omitempty"` // how many entries an answer to another process leaves out, see Client.Fleet
}

// A HeldLock is one key that a process has in Redis.
type HeldLock struct {
	Key     string        `json:"key"`
	Kind    Kind          `json:"kind"`              // as in [AcquireEvent]; the parts of a MultiLock and of a RedLock are listed, not the whole
	Owner   string        `json:"owner"`             // "<uuid>:<number>" as in Redis; for permits the id of the first one
	Name    string        `json:"name,omitempty"`    // lockrt.WithName of the call that has it
	Since   time.Time     `json:"since"`             // when that call was granted it, or of a key that lingers: when it was unlocked
	Holds   int           `json:"holds"`             // how often it was entered, how many readers share it, or how many permits there are
	Lingers bool          `json:"lingers,omitempty"` // no call has it, see lockrt.WithLinger; Holds is 0
	Lease   time.Duration `json:"lease_ns"`          // the lease time of a renewal, or of the grant
	Renewed bool          `json:"renewed,omitempty"` // by the watchdog
	Left    time.Duration `json:"left_ns"`           // its longest time to live in Redis without a renewal
	Token   int64         `json:"token,omitempty"`   // the fencing token
	Queued  int           `json:"queued,omitempty"`  // calls of this process that wait for the key
	Trace   string        `json:"trace,omitempty"`   // the result of [Hooks.TraceParent] for the call
}

// A WaitingCall is one call that waits.
type WaitingCall struct {
	Key      string     `json:"key"`
	Kind     Kind       `json:"kind"`
	Name     string     `json:"name,omitempty"` // lockrt.WithName
	Since    time.Time  `json:"since"`
	Deadline *time.Time `json:"deadline,omitempty"` // when it gives up: the end of its wait or of its context; nil if never
	Permits  int        `json:"permits,omitempty"`  // how many permits of a semaphore it wants
	Under    []LeaseRef `json:"under,omitempty"`    // the leases under whose contexts it waits, the innermost first
	Trace    string     `json:"trace,omitempty"`    // the result of [Hooks.TraceParent] for the call
}

// A LeaseRef names a lease: the key and its owner.
type LeaseRef struct {
	Key   string `json:"key"`
	Owner string `json:"owner"`
}

// A Process describes the program of a Client, and its host: for people who look for the holder of a lock.
type Process struct {
	ID             string    `json:"id"`                        // Client.ID, with which the owners of its locks begin
	Name           string    `json:"name,omitempty"`            // Options.Name
	Host           string    `json:"host,omitempty"`            // none with Options.Anonymous
	PID            int       `json:"pid,omitempty"`             // 0 with Options.Anonymous
	Program        string    `json:"program"`                   // the path of its main package, or the name of the file
	ProgramVersion string    `json:"program_version,omitempty"` // from its build information
	Library        string    `json:"library,omitempty"`         // the version of this module in it
	Started        time.Time `json:"started"`
}

// A Fleet has the holds and waiting calls of the processes that share a server.
type Fleet struct {
	// Processes are the answers, in the order of the ids, also of processes without holds.
	Processes []Snapshot
	// Silent are the ids of processes that listen and have not answered in time, or not legibly: they are stopped or busy, are asked by too
	// many, may not publish, or have an older version of this library.
	Silent []string
}
