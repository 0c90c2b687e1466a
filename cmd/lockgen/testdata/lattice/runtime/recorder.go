// Package lockrt stands in for lockgen's runtime, together with package gen.
package lockrt

import (
	"errors"
	"time"
)

const UntilDone time.Duration = -1

var ErrNotAcquired = errors.New("not acquired")

type Kind string

const (
	KindMutex  Kind = "mutex"
	KindWrite  Kind = "write"
	KindRead   Kind = "read"
	KindFair   Kind = "fair"
	KindPermit Kind = "permit"
)

type LockOption struct{}

type Client struct{}
