package generatedtest

import (
	"context"
	"io"
	"iter"
)

// Endings is a service whose locks end in other ways than with the call.
//
//lockgen:service
//lockgen:lock method=Close key=gen:close wait=5s
type Endings interface {
	// Get reads, from elsewhere while another caller writes.
	//
	//lockgen:lock key=gen:end:{id} wait=0 busy=fallback
	Get(ctx context.Context, id string) (string, error)

	// Once runs once in a while, for all callers together.
	//
	//lockgen:lock key=gen:end:{id} wait=0 busy=skip lease=1m release=keep
	Once(ctx context.Context, id string) error

	// Soon runs once a day, and not while another replica runs it.
	//
	//lockgen:lock key=gen:end:{id} wait=1s busy=skip
	Soon(ctx context.Context, id string) error

	// Peek reads, from elsewhere if another caller writes for long.
	//
	//lockgen:lock key=gen:end:{id} wait=1s busy=fallback
	Peek(ctx context.Context, id string) (string, error)

	// Slow keeps the lock for a while after the call.
	//
	//lockgen:lock key=gen:end:{id} min=150ms
	Slow(ctx context.Context, id string) error

	// Stubborn goes on although the lock is lost.
	//
	//lockgen:lock key=gen:end:{id} lost=report fence
	Stubborn(ctx context.Context, id string) error

	// Rows are read under the lock.
	//
	//lockgen:lock key=gen:end:{id} scope=iter
	Rows(ctx context.Context, id string) (int, iter.Seq2[int, error], error)

	// Lines are read under the lock.
	//
	//lockgen:lock key=gen:end:{id} scope=iter
	Lines(ctx context.Context, id string) (iter.Seq[string], error)

	// Open reads a file under the lock.
	//
	//lockgen:lock key=gen:end:{id} scope=close
	Open(ctx context.Context, id string) (io.ReadWriteCloser, error)

	closing
}

type closing interface{ Close() error }
