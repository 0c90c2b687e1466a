package resource

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A call is suspected after Settings.DeadlockAfter if nothing bounds its wait.
func TestMayWaitForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = time.Second
		c := new(Client)
		c.Settings = core.Settings{DeadlockAfter: after}
		bounded, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		w := engine.NewWaiter[Wish]()
		pass := func() {
			<-time.After(time.Minute)
			synctest.Wait()
		}
		c.mayWaitForEver(bounded, w, leases.UntilDone)
		c.mayWaitForEver(context.Background(), w, time.Minute)
		c.Settings.DeadlockAfter = -1
		c.mayWaitForEver(context.Background(), w, leases.UntilDone)
		pass()
		_, ok := w.NextEvent()
		require.False(t, ok)
		c.Settings.DeadlockAfter = after
		c.mayWaitForEver(context.Background(), w, leases.UntilDone)
		pass()
		ev, ok := w.NextEvent()
		require.True(t, ok)
		require.Equal(t, engine.Suspected, ev.Kind)
	})
}
