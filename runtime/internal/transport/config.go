package transport

import (
	"log/slog"
	"time"

	"github.com/redis/rueidis"
)

// A User is the client that a transport works for. Its methods do not block.
type User interface {
	// Go runs f on a goroutine that ends before the client is closed.
	Go(f func())
	// Detach runs f on a goroutine that may end later: it waits for an answer that nobody needs.
	Detach(f func())
	// Leave makes a goroutine of Go one of Detach, which calls Return when its function ends.
	Leave()
	Return()
	// Busy reports whether the client holds anything or waits for anything.
	Busy() bool
	// Resting returns for how long at most a client that is not Busy can do without messages on its only channel; 0 for one that
	// needs them.
	Resting(channel string) time.Duration
	// Recheck confirms the leases of some keys at once: their server may have lost writes. All leases, if some is nil.
	Recheck(some func(key string) bool)
	// EachKey calls f for the key of each lease.
	EachKey(f func(key string))
	// ListenTo listens on the channel of the client in the slot of a hash tag, until leave is called.
	ListenTo(tag string) (leave func())
	// Changed reports keys that another client changed, or, for nil, that all keys may have
	// changed.
	Changed(keys []string)
	// LookFirst sets how long after its grant a lease is confirmed for the first time; 0 is when it is renewed anyway.
	LookFirst(after time.Duration)
}

// Channels selects the kind of channels on which the programs of a cluster announce releases.
type Channels int

// The kinds of channels.
const (
	PlainChannels Channels = iota
	ShardedChannels
	BothChannels
)

// Config configures a transport.
type Config struct {
	Client    rueidis.Client
	UUID      string   // of the client, which names its channels
	Channels  Channels // of a cluster
	Tracking  bool     // make a single server report changes
	Replicas  int      // number of replicas that must confirm a grant
	OpTimeout time.Duration
	Logger    *slog.Logger
	Closing   <-chan struct{} // closed when the client grants nothing any more
	Stopped   <-chan struct{} // closed when background work must give up
	User      User
}
