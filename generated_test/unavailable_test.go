package generatedtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestEndings_RedisAway shows that busy=skip and busy=fallback are for a lock that another caller holds, and not for a
// Redis that does not answer. Then the call fails, whether it waits for up to a second or tries once, and neither the
// method nor the fallback runs.
func TestEndings_RedisAway(t *testing.T) {
	t.Parallel()
	away := map[string]func(p *redistest.FaultProxy){
		"refused": func(p *redistest.FaultProxy) { p.Refuse(true); p.Cut() },
		"mute":    func(p *redistest.FaultProxy) { p.Blackhole(redistest.Both) },
	}
	for how, leave := range away {
		for name, call := range map[string]func(ctx context.Context, s *gen.LockedEndings, id string) error{
			"wait=1s busy=skip": func(ctx context.Context, s *gen.LockedEndings, id string) error { return s.Soon(ctx, id) },
			"wait=0 busy=skip":  func(ctx context.Context, s *gen.LockedEndings, id string) error { return s.Once(ctx, id) },
			"wait=1s busy=fallback": func(ctx context.Context, s *gen.LockedEndings, id string) error {
				_, err := s.Peek(ctx, id)
				return err
			},
			"wait=0 busy=fallback": func(ctx context.Context, s *gen.LockedEndings, id string) error {
				_, err := s.Get(ctx, id)
				return err
			},
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, id := patient(t), redistest.Key(t, "id")
				proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
				waiting := make(chan struct{}, 100)
				opts := lockrt.Options{Hooks: lockrt.Hooks{
					Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
				}}
				c, err := lockrt.Open(ctx, proxy.URL(), opts)
				for tries := 0; err != nil && tries < 3; tries++ { // the machine may stand still for longer than Open waits
					c, err = lockrt.Open(ctx, proxy.URL(), opts)
				}
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() }) // its server may be away
				ran, fell := 0, 0
				s := gen.NewLockedEndings(
					endings{do: func(context.Context) error { ran++; return nil }},
					endings{do: func(context.Context) error { fell++; return nil }}, c)
				unavailable := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, lockrt.ErrUnavailable)
					require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
					require.Zero(t, ran+fell, "nothing runs")
				}
				back := func() {
					proxy.Refuse(false)
					proxy.Deliver()
				}

				leave(proxy)
				unavailable(call(ctx, s, id))
				back()

				// Another client holds the lock and Redis says so. Then Redis stops answering.
				other := newReplica(t, nothing).locks
				lease, err := other.Mutex(endingsKey(t, id)).Lock(ctx)
				require.NoError(t, err)
				for err = call(ctx, s, id); err != nil; err = call(ctx, s, id) {
					unavailable(err) // Redis is not back yet
				}
				require.Zero(t, ran, "somebody else has it")
				fell = 0
				for len(waiting) > 0 {
					<-waiting
				}
				got := make(chan error, 1)
				if name[:6] == "wait=1" {
					go func() { got <- call(ctx, s, id) }()
					receive(t, waiting, "the call to wait")
					leave(proxy)
				} else {
					leave(proxy)
					got <- call(ctx, s, id)
				}
				unavailable(receive(t, got, "the call"))
				back()
				require.NoError(t, lease.Unlock(ctx))
				// Redis is back, and the lock is free once the client has withdrawn the grant whose reply was lost.
				for ran == 0 {
					fell = 0
					if err = call(ctx, s, id); err != nil {
						unavailable(err)
					}
				}
				require.Equal(t, 1, ran)
				_, err = other.Mutex(endingsKey(t, id)).ForceUnlock(ctx) // removes the lock that release=keep leaves
				require.NoError(t, err)
			})
		}
	}
}
