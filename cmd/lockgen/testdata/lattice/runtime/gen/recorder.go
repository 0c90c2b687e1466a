// Package gen stands in for what lockgen's runtime has for generated code: it locks nothing, and writes down what it is asked for.
package gen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

const GeneratedCodeV1 = true

// Said is what was asked for, and Busy says that nothing is granted.
var (
	Said []string
	Busy bool
)

type KindKey struct {
	Kind    lockrt.Kind
	Permits int
	Key     string
	Fence   bool
}

type Spec struct {
	Name, Template             string
	Kind                       lockrt.Kind
	Permits                    int
	Wait, Watchdog, Lease, Min time.Duration
	Keep, Report, Empty, Fence bool
}

func With(*lockrt.Client, ...lockrt.LockOption) Acquirer { return Acquirer{} }

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
		all = append(all, fmt.Sprintf("%s kind %s permits %d fence %v", k.Key, cmp.Or(k.Kind, lockrt.KindMutex), k.Permits, k.Fence))
	}
	slices.Sort(all)
	Said = append(Said, fmt.Sprintf("%s: %s; wait %d watchdog %v lease %v min %v report %v", spec.Name, strings.Join(all, ", "),
		spec.Wait, spec.Watchdog, spec.Lease, spec.Min, spec.Report))
	if Busy {
		return nil, lockrt.ErrNotAcquired
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
