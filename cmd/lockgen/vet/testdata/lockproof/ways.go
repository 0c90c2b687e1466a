package lockproof

import (
	"context"
	"iter"
	"sync"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func jumpsBack(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]]) {
	n := 0
again:
	show(lease.Held()) // want `lease was unlocked before: it proves nothing any more`
	lease.Unlock(ctx)
	if n++; n < 2 {
		goto again
	}
}

func continues(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]], rows [][]int) {
rows:
	for _, row := range rows {
		for range row {
			show(lease.Held()) // want `lease was unlocked before`
			if len(row) > 1 {
				lease.Unlock(ctx)
				continue rows
			}
		}
	}
}

func leaves(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]], all iter.Seq[int]) {
	for n := range all {
		show(lease.Held())
		if n == 0 {
			lease.Unlock(ctx)
			return
		}
	}
	show(lease.Held())
}

func selects(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]], done chan bool) {
	select {
	case <-ctx.Done():
		lease.Unlock(ctx)
	case <-done:
	}
	show(lease.Held()) // want `lease was unlocked before`
}

func deferredInLoop(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	for range 3 {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		show(lease.Held())
	}
	return nil
}

func panics(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]]) {
	if ctx.Err() != nil {
		lease.Unlock(ctx)
		panic("over")
	}
	show(lease.Held())
}

// The wait stands above the release in the source, and is not reached before it.
func waitsAfterwards(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]], jobs chan lockrt.Held[ID], done chan bool) {
	goto begin
end:
	<-done
	return
begin:
	jobs <- lease.Held() // want `a Held is stored, where it outlives the lock`
	lease.Unlock(ctx)
	goto end
}

// The release stands above the wait in the source, on another way.
func waitsBefore(ctx context.Context, m lockrt.EntityMutex[ID], wg *sync.WaitGroup, jobs chan lockrt.Held[ID]) error {
	for first := true; ; first = false {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		jobs <- lease.Held()
		if !first {
			wg.Wait()
			return lease.Unlock(ctx)
		}
		select {
		case <-ctx.Done():
		}
		lease.Unlock(ctx)
	}
}

func unlocksEach(ctx context.Context, leases []lockrt.EntityLease[lockrt.Held[ID]], more iter.Seq[lockrt.EntityLease[lockrt.Held[ID]]]) error {
	for _, lease := range leases {
		show(lease.Held())
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
	}
	var lease lockrt.EntityLease[lockrt.Held[ID]]
	for lease = range more {
		show(lease.Held())
		lease.Unlock(ctx)
	}
	return work(lease.Context()) // want `lease was unlocked before`
}

func declaresEach(ctx context.Context, leases []lockrt.EntityLease[lockrt.Held[ID]]) {
	for len(leases) > 0 {
		var lease = leases[0]
		show(lease.Held())
		lease.Unlock(ctx)
		leases = leases[1:]
	}
}
