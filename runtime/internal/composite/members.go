package composite

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/observe"
)

// NewMultiLock returns the lock of all lockers: the members of a MultiLock among them take its place, and the same lock counts once.
func NewMultiLock(lockers ...locks.Locker) *MultiLock {
	m := &MultiLock{wait: leases.UntilDone, members: make([]locks.Locker, 0, len(lockers))}
	for i, locker := range lockers {
		whole, ok := locker.(*MultiLock)
		switch {
		case IsNothing(locker):
			m.refuse("", fmt.Errorf("%w: lock %d of a MultiLock is nil", failure.ErrBadOption, i))
		case ok:
			m.members = append(m.members, whole.members...)
			m.err = core.FirstOf(m.err, whole.err)
		default:
			m.members = append(m.members, locker)
		}
	}
	slices.SortStableFunc(m.members, inOrder)
	m.members = m.distinct()
	m.keys = make([]string, len(m.members))
	for i, l := range m.members {
		m.keys[i] = l.Key()
		c, opts := first(l)
		if m.c == nil && c != nil {
			m.c, m.opts = c, opts
		}
		wait, said, err := budget(opts)
		switch {
		case err != nil:
			m.refuse(l.Key(), err)
		case said && wait != leases.UntilDone && (m.wait == leases.UntilDone || wait < m.wait):
			m.wait = wait
		}
	}
	m.key = strings.Join(m.keys, ", ")
	return m
}

// refuse records why m cannot be locked, unless there is a reason already.
func (m *MultiLock) refuse(key string, err error) {
	if m.err == nil {
		m.err = &observe.Error{Op: "lock", Key: key, Err: err}
	}
}

// distinct returns the members, each once.
func (m *MultiLock) distinct() []locks.Locker {
	once := make([]locks.Locker, 0, len(m.members))
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

// IsNothing reports whether l is nil, or has a nil pointer in it.
func IsNothing(l any) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// check returns why the members cannot be locked with opts, before anything is sent. tryTogether checks mutexes of one
// Client.
func (m *MultiLock) check(opts []leases.Option) error {
	if len(neighbours(m.members)) == len(m.members) {
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
			if err = core.FirstOf(err, cfg.Meaningless(kind)); err == nil {
				err = c.Core().CheckKey(l.Key())
			}
			if err != nil {
				return fail(err)
			}
		}
	}
	return nil
}
