package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// Stats returns counts since the Client was made. It does not contact Redis and works after Close. For package expvar:
//
//	expvar.Publish("locks", expvar.Func(func() any { return client.Stats() }))
func (c *Client) Stats() Stats { return (*locks.Client)(c).Stats() }

// Process returns the description that the Client gives to others: name, host and program.
func (c *Client) Process() Process { return (*locks.Client)(c).Process() }

// ProcessOf returns the process of the Client with that id, and false if it is unknown. A Client describes its process
// in Redis once it has held or waited for a lock for a third of its watchdog time; Redis keeps that for as long as the
// Client's locks, also after a crash. One round trip.
func (c *Client) ProcessOf(ctx context.Context, id string) (Process, bool, error) {
	return (*locks.Client)(c).ProcessOf(ctx, id)
}

// Snapshot returns the holds of the Client and its waiting calls. It does not contact Redis. It leaves out calls that
// try once and, as a rule, calls that Redis has not refused yet. The first Client of a RedLock or MultiLock lists its
// calls.
func (c *Client) Snapshot() Snapshot { return (*locks.Client)(c).Snapshot() }

// Fleet asks all processes that share the server for their holds and waiting calls, of one key, or of all for "". It
// returns when all have answered, when ctx ends or after [Options.OpTimeout]; the others are Silent. Java programs do not
// answer. Fleet asks processes that hold a lock or waited lately, and fails if Redis cannot list them. It costs
// one command for each server and at least two messages for each process. A process answers 10 requests a second; Fleet
// asks a process that refuses once more, a second later. An answer names 200 held locks and 200 waiting calls at most,
// first the calls that wait under a lease, as all calls of a deadlock do; see Omitted.
func (c *Client) Fleet(ctx context.Context, key string) (Fleet, error) {
	return (*locks.Client)(c).Fleet(ctx, key)
}

// ForceUnlock takes key, of any kind of lock, from owners and reports whether it did; it takes nothing from others. Owners are those of [Standing],
// [RWStanding] or [Snapshot]: the holder, all readers, a writer and all readers beside it, or some permits. They lose it at once, permits at their
// renewal, Java when it unlocks. After an error call it again: no other holder loses the key. Two round trips.
func (c *Client) ForceUnlock(ctx context.Context, key string, owners ...string) (bool, error) {
	return (*locks.Client)(c).ForceUnlock(ctx, key, owners...)
}
