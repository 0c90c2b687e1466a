package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/composite"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A RedLock is held on a majority of independent Redis servers, so it outlives the loss of two of five. Prefer a [Mutex] with [WithFencing]
// on one server with a replica: it costs one request instead of five, and its token guards what a lock alone cannot. Redisson's RRedLock,
// deprecated for the same reason; the algorithm is antirez' Redlock, with Kleppmann's objections in mind.
//
// A call asks all servers at once; a slow or dead minority does not delay it. The lease is trusted as long as a
// majority of its parts is, each counted from before its request. Calls of one process are in order; processes race.
//
// A server that restarts without its data grants again: while a bare majority holds, one such server makes a second holder. So use
// appendfsync always, or keep it away for the longest lease time, and use no replicas. A token of [WithFencing] is the largest that the
// majority gave, written back before Lock returns. docs/details.md has the exact rules.
type RedLock composite.RedLock

// NewRedLock returns the lock named key on the servers of clients: an odd number of three or more, each for another server. Closing a Client
// counts as the loss of its server; closing the first also ends waiting calls.
func NewRedLock(key string, clients []*Client, opts ...LockOption) *RedLock {
	all := make([]*locks.Client, len(clients))
	for i, c := range clients {
		all[i] = (*locks.Client)(c)
	}
	return (*RedLock)(composite.NewRedLock(key, all, optionsOf(opts)...))
}

// Key returns the name of the lock, its key in Redis on each server.
func (m *RedLock) Key() string { return (*composite.RedLock)(m).Key() }

// Lock waits for a majority of the servers. It fails with [ErrUnavailable] and the error of a server only if there can
// be no majority without the failing ones. It releases a granted minority, after 100ms in the background.
func (m *RedLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*composite.RedLock)(m).Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryLock asks all servers once. It waits for answers while a majority is possible, for [Options.RedLockTimeout] at most. Of two calls at
// once both may fail.
func (m *RedLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*composite.RedLock)(m).TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// Do is [Mutex.Do].
func (m *RedLock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// Inspect asks all servers at once. It waits for each, for [Options.OpTimeout] at most, and returns their answers and errors in the order
// of the clients. It fails with [ErrUnavailable] if no majority answers.
func (m *RedLock) Inspect(ctx context.Context) (RedStanding, error) {
	return (*composite.RedLock)(m).Inspect(ctx)
}

// ForceUnlock takes the key from its holder on all servers at once and reports whether any had it. The lease of a holder of this library is lost when the
// first server has notified it: the holder does not get its parts back. ForceUnlock waits for each server, for [Options.OpTimeout] at most, and fails
// with [ErrUnavailable] without a majority. It may be called again.
func (m *RedLock) ForceUnlock(ctx context.Context) (bool, error) {
	return (*composite.RedLock)(m).ForceUnlock(ctx)
}
