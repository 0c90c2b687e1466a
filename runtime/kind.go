package lockrt

import "slices"

// A Key is a whole key as it is in Redis: the unescaped result of a key function of an annotation. Different things
// must have different keys.
type Key string

// The texts of kinds.
const (
	kindMutex     = string(KindMutex)
	kindFair      = string(KindFair)
	kindSemaphore = string(KindSemaphore)
	kindPermit    = string(KindPermit)
	kindLatch     = string(KindLatch)
	kindWrite     = string(KindWrite)
	kindRead      = string(KindRead)
	kindMulti     = string(KindMulti)   // of a MultiLock; its parts are not reported
	kindRedLock   = string(KindRedLock) // its parts are not reported
)

// A kindNumber is a kind in one byte: a place in countedKinds.
type kindNumber uint8

func numberOf(kind string) kindNumber { return kindNumber(slices.Index(countedKinds[:], kind)) }
