package lockproof

import (
	"context"
	"sync"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type ID string

func show(lockrt.Held[ID]) {}

func work(context.Context) error { return nil }

type record struct {
	held  lockrt.Held[ID]
	lease *lockrt.Lease
}

var global lockrt.Held[ID]

func after(ctx context.Context, held lockrt.Held[ID], again bool, m lockrt.EntityMutex[ID]) error {
	show(held)
	if again {
		held.Unlock(ctx)
	}
	show(held) // want `held was unlocked before: it proves nothing any more`
	if err := held.Err(); err != nil {
		return err
	}
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	show(held)
	return held.Unlock(ctx)
}

func loop(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	for {
		held, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		show(held)
		held.Unlock(ctx)
		println(held.ID())
	}
}

func ended(ctx context.Context, lease *lockrt.Lease) error {
	lease.Unlock(ctx)
	return work(lease.Context()) // want `lease was unlocked before: its context has ended`
}

func deferred(ctx context.Context, held lockrt.Held[ID]) error {
	defer held.Unlock(ctx)
	show(held)
	return work(held.Context())
}

func stored(ctx context.Context, m lockrt.EntityMutex[ID], out chan lockrt.Held[ID]) (err error) {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	r := record{held: held, lease: held.Lease} // want `a Held is stored, where it outlives the lock`
	r.held = held                              // want `a Held is stored`
	r.held, err = m.Lock(ctx)                  // want `a Held is stored`
	global = held                              // want `a Held is stored`
	all := map[ID]lockrt.Held[ID]{}
	all["x"] = held                 // want `a Held is stored`
	list := []lockrt.Held[ID]{held} // want `a Held is stored`
	out <- list[0]                  // want `a Held is stored`
	other := held
	show(other)
	return held.Unlock(ctx)
}

type job struct{ held lockrt.Held[ID] }

func (j job) run(done chan<- bool) { show(j.held); done <- true }

func renamed(ctx context.Context, m lockrt.EntityMutex[ID], held lockrt.Held[ID]) error {
	other := held
	var third = other
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	show(other) // want `other was unlocked before: it proves nothing any more`
	show(third) // want `third was unlocked before`
	two := held
	two, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	show(two)
	return two.Unlock(ctx)
}

func unlockedAsOther(ctx context.Context, held lockrt.Held[ID]) {
	other := held
	other.Unlock(ctx)
	show(held) // want `held was unlocked before`
}

func waited(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID], done chan bool) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { show(held) })
	wg.Wait()
	go job{held}.run(done)
	go func(j job) { j.run(done) }(job{held: held})
	<-done
	jobs <- held
	for range done {
		break
	}
	return held.Unlock(ctx)
}

func waitedDeferred(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID]) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer held.Unlock(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { show(<-jobs) })
	jobs <- held
	wg.Wait()
	return nil
}

func notWaited(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID], done chan bool) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	jobs <- held // want `a Held is stored, where it outlives the lock`
	err = held.Unlock(ctx)
	<-done
	return err
}
