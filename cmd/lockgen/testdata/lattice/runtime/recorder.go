// Package runtime stands in for lockgen's runtime: it locks nothing, and writes down what generated code asks for.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const GeneratedCodeV1 = true

const UntilDone time.Duration = -1

var ErrNotAcquired = errors.New("not acquired")

// Said is what was asked for, and Busy says that nothing is granted.
var (
	Said []string
	Busy bool
)

type Kind int

const (
	KindMutex Kind = iota
	KindWrite
	KindRead
	KindFair
	KindPermit
)

type KindKey struct {
	Kind    Kind
	Permits int
	Key     string
	Fence   bool
}

type Spec struct {
	Name                       string
	Kind                       Kind
	Permits                    int
	Wait, Watchdog, Lease, Min time.Duration
	Keep, Report, Empty, Fence bool
}

type LockOption struct{}

type Client struct{}

func (c *Client) With(...LockOption) Acquirer { return Acquirer{} }

type Acquirer struct{}

func (a Acquirer) Acquire(ctx context.Context, spec *Spec, keys ...string) (*Hold, error) {
	var all []KindKey
	for _, key := range keys {
		all = append(all, KindKey{spec.Kind, spec.Permits, key, spec.Fence})
	}
	return a.AcquireKinds(ctx, spec, all...)
}

func (Acquirer) AcquireKinds(ctx context.Context, spec *Spec, keys ...KindKey) (*Hold, error) {
	var all []string
	for _, k := range keys {
		all = append(all, fmt.Sprintf("%s kind %d permits %d fence %v", k.Key, k.Kind, k.Permits, k.Fence))
	}
	slices.Sort(all)
	Said = append(Said, fmt.Sprintf("%s: %s; wait %d watchdog %v lease %v min %v report %v", spec.Name, strings.Join(all, ", "),
		spec.Wait, spec.Watchdog, spec.Lease, spec.Min, spec.Report))
	if Busy {
		return nil, ErrNotAcquired
	}
	return &Hold{ctx}, nil
}

type Hold struct{ ctx context.Context }

func (h *Hold) Context() context.Context { return h.ctx }
func (h *Hold) Release(*error)           {}

func AppendString[S ~string](b []byte, s S) []byte { return append(b, s...) }

func AppendValue[T ~string](b []byte, v T) ([]byte, error) { return append(b, v...), nil }

func EmptyKey(string, string) error { return errors.New("empty") }

func BadKey(_, _ string, err error) error { return err }
