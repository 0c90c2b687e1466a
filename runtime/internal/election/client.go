// Package election has what one process of many does at a time: it leads in an election, or runs an interval of a schedule. The process is the
// holder of a mutex. The package writes and reads the record beside the mutex, and decides when a process asks again.
package election

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A Client is what the elections and schedules of one client have in common.
type Client struct {
	Host

	Wire   protocol.Process
	Net    *transport.Transport
	Logger *slog.Logger
}

// A Host is the client itself.
type Host interface {
	Spawn(f func())
	Pause(d time.Duration) bool
	Backoff(tries int) time.Duration
	// Closing returns a channel that is closed when the client grants nothing any more.
	Closing() <-chan struct{}
}

// A Lease is a lease of the mutex, with a fencing token.
type Lease interface {
	Context() context.Context
	Err() error
	Token() int64
	Owner() string // as in Redis
	// Release releases the lease, and returns why it had ended before.
	Release() error
	// Unlock is Release, with an error that names the lease.
	Unlock(ctx context.Context) error
}

// The names of both in the log.
const (
	kindElection = "election"
	kindSchedule = "schedule"
)
