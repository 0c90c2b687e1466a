package lockproof

import (
	"context"

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
