package locktest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A proof says of a lease what the proofs of typed locks say.
type proof struct{ of *lockrt.Lease }

func (p proof) Err() error               { return p.of.Err() }
func (p proof) Context() context.Context { return p.of.Context() }

// TestLose_AnyKind loses the lock that a context is under.
//
//nolint:paralleltest // everyServer sets variables of the environment
func TestLose_AnyKind(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		c := locktest.Client(t, lockrt.Options{})
		lose := func(ctx context.Context) {
			derived, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			locktest.Lose(t, derived)
			require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
		}
		with := func(ctx context.Context, _ *lockrt.Lease) error { lose(ctx); return nil }
		key := redistest.Key(t, "k")
		for name, do := range map[string]func() error{
			"mutex": func() error { return c.Mutex(key+":1").Do(t.Context(), with) },
			"fair":  func() error { return c.FairMutex(key+":2").Do(t.Context(), with) },
			"write": func() error { return c.RWMutex(key+":3").Do(t.Context(), with) },
			"read":  func() error { return c.RWMutex(key+":4").RDo(t.Context(), with) },
			"multi": func() error { return lockrt.NewMultiLock(c.Mutex(key+":5"), c.RWMutex(key+":6")).Do(t.Context(), with) },
			"permit": func() error {
				return c.PermitSemaphore(key+":7", 2).Do(t.Context(), func(ctx context.Context, p *lockrt.Permit) error {
					lose(ctx)
					return nil
				})
			},
			"proof": func() error {
				return c.Mutex(key+":8").Do(t.Context(), func(ctx context.Context, l *lockrt.Lease) error {
					locktest.Lose(t, proof{l})
					require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
					return nil
				})
			},
		} {
			require.ErrorIs(t, do(), lockrt.ErrLost, name)
		}
	})
}

func TestLose_WhatCannotBeLost(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	for want, of := range map[string]locktest.Losable{
		"locktest: the context is under no lease that could be lost":                          t.Context(),
		"locktest: a lockrt.CurrentLease cannot be lost: it is neither a lease nor a context": lockrt.CurrentLease{},
	} {
		tb := &locktest.Recorder{TB: t}
		tb.Run(func() { locktest.Lose(tb, of) })
		require.Equal(t, []string{want}, tb.Errors)
	}
}
