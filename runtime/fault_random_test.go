package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestFault_AnythingGoes has goroutines of three clients lock few keys in every way there is,
// over a network that loses requests and replies. No two may be inside at once, nobody loses what
// does not expire, and nothing is left.
func TestFault_AnythingGoes(t *testing.T) {
	t.Parallel()
	const clients, goroutines, each, keys = 3, 4, 60, 3
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	var all [clients]*lockrt.Client
	for i := range all {
		opts := brisk
		opts.Cohort, opts.OpTimeout = 1+i*3, patience // Unlock is to go on for as long as messages get lost
		all[i] = clientOf(t, proxy.URL(), opts)
	}
	run := redistest.Command("EVALSHA")
	sometimes := func(n int) func(cmd []string) bool {
		return func(cmd []string) bool { return run(cmd) && rand.IntN(n) == 0 }
	}
	drops := []*redistest.Drop{
		proxy.DropReply(sometimes(25), 0, redistest.Close),
		proxy.DropRequest(sometimes(25), 0, redistest.Close),
		proxy.DropReply(sometimes(400), 0, redistest.Mute),
		proxy.DropReply(redistest.Command("SUBSCRIBE"), 3, redistest.Close),
	}
	var names [keys]string
	var inside [keys]atomic.Int64
	for i := range names {
		names[i] = redistest.Key(t, strconv.Itoa(i))
	}
	over, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	wrong := make(chan error, 10000)
	check := func(what string, err error) {
		if err != nil {
			wrong <- fmt.Errorf("%s: %w", what, err)
		}
	}
	turn := func(c *lockrt.Client) {
		k := rand.IntN(keys)
		m := c.Mutex(names[k], lockrt.WithWatchdog(time.Minute))
		ctx, cancel := context.WithCancel(over)
		defer cancel()
		var opts []lockrt.LockOption
		switch rand.IntN(6) {
		case 0:
			opts = append(opts, lockrt.WithLease(50*time.Second))
		case 1:
			opts = append(opts, lockrt.WithWatchdog(40*time.Second))
		case 2:
			opts = append(opts, lockrt.WithWait(rand.N(20*time.Millisecond)))
		case 3:
			timer := time.AfterFunc(rand.N(10*time.Millisecond), cancel)
			defer timer.Stop()
		}
		lock := m.Lock
		if rand.IntN(4) == 0 {
			lock = m.TryLock
		}
		lease, err := lock(ctx, opts...)
		if err != nil {
			if over.Err() != nil {
				check("locking until the end", err)
			}
			return
		}
		if inside[k].Add(1) != 1 {
			check(names[k], errors.New("two are inside"))
		}
		if ctx.Err() == nil && rand.IntN(3) == 0 {
			inner, err := m.Lock(lease.Context())
			if ctx.Err() == nil {
				check("reentering", err)
			}
			if err == nil {
				check("leaving an inner lease", inner.Unlock(ctx))
			}
		}
		check("while it is held", lease.Err())
		inside[k].Add(-1)
		check("unlocking", lease.Unlock(ctx))
	}
	var wg sync.WaitGroup
	for _, c := range all {
		for range goroutines {
			wg.Go(func() {
				for range each {
					turn(c)
				}
			})
		}
	}
	wg.Wait()
	for _, drop := range drops {
		drop.Stop()
	}
	close(wrong)
	for err := range wrong {
		require.NoError(t, err)
	}
	for _, name := range names {
		gone(t, server, name)
	}
	for _, c := range all {
		require.NoError(t, c.Shutdown(t.Context()))
		until(t, "no key has a resource", func() bool { return lockrt.Resources(c) == 0 })
	}
	for _, name := range names {
		gone(t, server, name)
	}
}
