package core

import (
	"slices"

	"github.com/lockgen/lockgen/runtime/observe"
)

// The texts of kinds.
const (
	KindMutex     = string(observe.KindMutex)
	KindFair      = string(observe.KindFair)
	KindSemaphore = string(observe.KindSemaphore)
	KindPermit    = string(observe.KindPermit)
	KindLatch     = string(observe.KindLatch)
	KindWrite     = string(observe.KindWrite)
	KindRead      = string(observe.KindRead)
	KindMulti     = string(observe.KindMulti)   // of a MultiLock; its parts are not reported
	KindRedLock   = string(observe.KindRedLock) // its parts are not reported
)

// A KindNumber is a kind in one byte: a place in CountedKinds.
type KindNumber uint8

// NumberOf returns the number of a kind, which is one of CountedKinds.
func NumberOf(kind string) KindNumber { return KindNumber(slices.Index(CountedKinds[:], kind)) }

// RWKind returns the kind of a read-write lock for its writer or its readers.
func RWKind(write bool) string {
	if write {
		return KindWrite
	}
	return KindRead
}
