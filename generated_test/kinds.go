package generatedtest

import (
	"context"

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

// A Name is one of a part of the configuration.
type Name string

// A Part is one that several can work on at once.
type Part string
