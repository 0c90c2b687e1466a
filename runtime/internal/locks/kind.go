package locks

import (
	"slices"

	"github.com/lockgen/lockgen/runtime/observe"
)

// The texts of kinds.
const (
	kindMutex     = string(observe.KindMutex)
	kindFair      = string(observe.KindFair)
	kindSemaphore = string(observe.KindSemaphore)
	kindPermit    = string(observe.KindPermit)
	kindLatch     = string(observe.KindLatch)
	kindWrite     = string(observe.KindWrite)
	kindRead      = string(observe.KindRead)
	kindMulti     = string(observe.KindMulti)   // of a MultiLock; its parts are not reported
	kindRedLock   = string(observe.KindRedLock) // its parts are not reported
)

// A kindNumber is a kind in one byte: a place in countedKinds.
type kindNumber uint8

func numberOf(kind string) kindNumber { return kindNumber(slices.Index(countedKinds[:], kind)) }

// rwKind returns the kind of a read-write lock for its writer or its readers.
func rwKind(write bool) string {
	if write {
		return kindWrite
	}
	return kindRead
}
