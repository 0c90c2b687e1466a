package generatedtest

import (
	"context"
	"io"
	"iter"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Config is a service with many readers, or one writer.
//
//lockgen:service wait=0
type Config interface {
	//lockgen:lock key=gen:config:{name} kind=read
	Get(ctx context.Context, name string) error

	//lockgen:lock key=gen:config:{names...} kind=write fence
	Set(ctx context.Context, names ...string) error
}

// ConfigLocks are the same locks, taken by hand.
//
//lockgen:locks prefix=gen wait=0
type ConfigLocks interface {
	//lockgen:lock key=config:{name}
	Config(name Name) lockrt.EntityRWMutex[Name]
	//lockgen:lock key=worker:{of} permits=2
	Worker(of Part) lockrt.EntitySemaphore[Part]
}

// A Name is the name of a part of the configuration.
type Name string

// A Part is one that several callers can work on at once.
type Part string

// Workshop is a service whose calls are served in order, or are bounded in number.
//
//lockgen:service wait=ctx
type Workshop interface {
	// Turn serves callers in the order in which they asked.
	//
	//lockgen:lock key=gen:desk:{of} kind=fair fence
	Turn(ctx context.Context, of Part) error

	// Try is Turn for callers that do not wait.
	//
	//lockgen:lock key=gen:desk:{of} kind=fair wait=0 busy=skip
	Try(ctx context.Context, of Part) error

	// Work is done by a few at once.
	//
	//lockgen:lock key=gen:worker:{of} kind=permit permits=2
	Work(ctx context.Context, of Part) error

	// Help works if a permit is free.
	//
	//lockgen:lock key=gen:worker:{of} kind=permit permits=2 wait=0 busy=fallback
	Help(ctx context.Context, of Part) (string, error)

	// All works on many things at once.
	//
	//lockgen:lock key=gen:worker:{of...} kind=permit permits=2 lost=report watchdog=1s
	All(ctx context.Context, of ...Part) error

	// Lines are read by a few at once.
	//
	//lockgen:lock key=gen:worker:{of} kind=permit permits=2 scope=iter
	Lines(ctx context.Context, of Part) (iter.Seq[string], error)

	// Open works until the result is closed.
	//
	//lockgen:lock key=gen:worker:{of} kind=permit permits=2 scope=close
	Open(ctx context.Context, of Part) (io.ReadWriteCloser, error)

	// Assemble needs the whole workshop.
	//
	//lockgen:lock key=gen:bench:{of} fence
	//lockgen:lock key=gen:config:{name} kind=read
	//lockgen:lock key=gen:config:{names...} kind=write
	//lockgen:lock key=gen:desk:{of} kind=fair
	//lockgen:lock key=gen:worker:{of} kind=permit permits=2
	Assemble(ctx context.Context, of Part, name string, names ...string) error
}

// Election is a service whose locks are held on a majority of servers.
//
//lockgen:service wait=0
type Election interface {
	// Lead leads.
	//
	//lockgen:lock key=gen:leader:{of} kind=red fence
	Lead(ctx context.Context, of Part) error

	// Move is done by the leader, and locks a place on one server.
	//
	//lockgen:lock key=gen:leader:{of} kind=red
	//lockgen:lock key=gen:place:{of}
	Move(ctx context.Context, of Part) error
}

// Desks are the same fair locks, taken by hand.
//
//lockgen:locks prefix=gen wait=0
type Desks interface {
	//lockgen:lock key=desk:{of} fence
	Desk(of Part) lockrt.EntityFairMutex[Part]
}
