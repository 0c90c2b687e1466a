package composite

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/observe"
)

// distinct returns the members, each once.
func (m *MultiLock) distinct() []locks.Locker {
	once := m.members[:0] // which is never longer than what was gone through
	for _, l := range m.members {
		again := false
		for _, other := range slices.Backward(once) {
			if other.Key() != l.Key() {
				break
			}
			if alike, conflict := compare(other, l); alike {
				again = true
			} else if conflict != "" {
				m.refuse(l.Key(), fmt.Errorf("%w: a MultiLock with the key of one Client twice, %s", failure.ErrBadOption, conflict))
			}
		}
		if !again {
			once = append(once, l)
		}
	}
	return once
}

// IsNil reports whether l is nil, or has a nil pointer in it.
func IsNil(l any) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// check returns why the members cannot be locked with opts, before anything is sent. tryTogether checks the mutexes of one client.
func (m *MultiLock) check(opts []leases.Option) error {
	if together(m.members) == len(m.members) {
		return nil
	}
	for _, l := range m.members {
		fail := func(err error) error { return &observe.Error{Op: "lock", Key: l.Key(), Err: err} }
		if red, ok := l.(*RedLock); ok {
			if err := red.unusable(); err != nil {
				return fail(err)
			}
		}
		kind, clients, base := describe(l)
		for _, c := range clients {
			cfg, err := leases.Configure(c.Core(), base, opts)
			if err = core.FirstError(err, cfg.Meaningless(kind)); err == nil {
				err = c.Core().CheckKey(l.Key())
			}
			if err != nil {
				return fail(err)
			}
		}
	}
	return nil
}
