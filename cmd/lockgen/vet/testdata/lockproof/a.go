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

func after(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]], again bool, m lockrt.EntityMutex[ID]) error {
	show(lease.Held())
	held := lease.Held()
	if again {
		lease.Unlock(ctx)
	}
	show(held)         // want `held was unlocked before: it proves nothing any more`
	show(lease.Held()) // want `lease was unlocked before: it proves nothing any more`
	if err := held.Err(); err != nil {
		return err
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	show(lease.Held())
	return lease.Unlock(ctx)
}

func loop(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	for {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		show(lease.Held())
		lease.Unlock(ctx)
		println(lease.Held().ID())
	}
}

func ended(ctx context.Context, lease *lockrt.Lease) error {
	lease.Unlock(ctx)
	return work(lease.Context()) // want `lease was unlocked before: its context has ended`
}

func endedAndAsked(ctx context.Context, lease *lockrt.Lease) error {
	if err := lease.Unlock(ctx); err != nil && lease.Context().Err() != nil {
		println(lease.Context().Value("id"))
		return context.Cause(lease.Context())
	}
	return work(context.WithoutCancel(lease.Context()))
}

func deferred(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]]) error {
	defer lease.Unlock(ctx)
	show(lease.Held())
	return work(lease.Context())
}

func stored(ctx context.Context, m lockrt.EntityMutex[ID], out chan lockrt.Held[ID]) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	held := lease.Held()
	r := record{held: held, lease: lease.Lease} // want `a Held is stored, where it outlives the lock`
	r.held = held                               // want `a Held is stored`
	r.held = lease.Held()                       // want `a Held is stored`
	global = held                               // want `a Held is stored`
	all := map[ID]lockrt.Held[ID]{}
	all["x"] = held                 // want `a Held is stored`
	list := []lockrt.Held[ID]{held} // want `a Held is stored`
	out <- list[0]                  // want `a Held is stored`
	other := held
	show(other)
	return lease.Unlock(ctx)
}

type job struct{ held lockrt.Held[ID] }

func (j job) run(done chan<- bool) { show(j.held); done <- true }

func renamed(ctx context.Context, m lockrt.EntityMutex[ID], lease lockrt.EntityLease[lockrt.Held[ID]]) error {
	held := lease.Held()
	other := held
	var third = other
	if err := lease.Unlock(ctx); err != nil {
		return err
	}
	show(other) // want `other was unlocked before: it proves nothing any more`
	show(third) // want `third was unlocked before`
	two := lease
	two, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	show(two.Held())
	return two.Unlock(ctx)
}

func unlockedAsOther(ctx context.Context, lease lockrt.EntityLease[lockrt.Held[ID]]) {
	held := lease.Held()
	other := lease
	other.Unlock(ctx)
	show(held) // want `held was unlocked before`
}

func waited(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID], done chan bool) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	held := lease.Held()
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
	return lease.Unlock(ctx)
}

func waitedDeferred(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID]) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { show(<-jobs) })
	jobs <- lease.Held()
	wg.Wait()
	return nil
}

func notWaited(ctx context.Context, m lockrt.EntityMutex[ID], jobs chan lockrt.Held[ID], done chan bool) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	jobs <- lease.Held() // want `a Held is stored, where it outlives the lock`
	err = lease.Unlock(ctx)
	<-done
	return err
}

func send(record, ...*record) {}

func all([]lockrt.Held[ID]) {}

func passedOn(held lockrt.Held[ID], done chan bool, later func(record)) []record {
	all([]lockrt.Held[ID]{held})
	send(record{held: held}, &record{held: held})
	later(record{held: held})
	defer job{held: held}.run(done)
	go job{held: held}.run(done) // want `a Held is stored`
	type jobs struct{ all []job }
	func(jobs) {}(jobs{all: []job{{held: held}}})
	return append([]record(nil), record{held: held}) // want `a Held is stored`
}
