package composite

import (
	"reflect"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// compare reports whether two lockers of one key are the same lock, and if they are not, why they cannot be locked
// together.
func compare(a, b locks.Locker) (alike bool, conflict string) {
	aKind, aClients, aOpts := describe(a)
	bKind, bClients, bOpts := describe(b)
	switch {
	case aKind == "" || bKind == "":
		return aKind == bKind && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b, ""
	case !slices.ContainsFunc(aClients, func(c *locks.Client) bool { return slices.Contains(bClients, c) }):
		return false, ""
	case aKind != bKind:
		return false, "of kind " + min(aKind, bKind) + " and " + max(aKind, bKind)
	case aKind == core.KindPermit:
		return false, "for two permits: acquire them together"
	case !sameClients(aClients, bClients):
		return false, "as one of the servers of two red locks"
	case !sameOptions(aClients[0], aOpts, bOpts):
		return false, "with other options"
	}
	return true, ""
}

// sameClients reports whether a and b are the same clients, in whatever order.
func sameClients(a, b []*locks.Client) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(c *locks.Client) bool { return !slices.Contains(b, c) })
}

// sameOptions reports whether locks with the options a and b are granted on the same terms. The shorter wait counts for
// both.
func sameOptions(c *locks.Client, a, b []leases.Option) bool {
	one, err := leases.Configure(c.Core(), a, nil)
	other, wrong := leases.Configure(c.Core(), b, nil)
	if err != nil || wrong != nil {
		return true // and the first call returns the error
	}
	return one.Terms == other.Terms && one.MaxHold == other.MaxHold && one.Limited == other.Limited && one.Linger == other.Linger && one.Backoff == other.Backoff
}

// inOrder compares members by their keys, then by their servers, then by their kinds: everything that is the same for
// all processes. It asks for the servers only if the keys are equal.
func inOrder(a, b locks.Locker) int {
	if order := strings.Compare(a.Key(), b.Key()); order != 0 {
		return order
	}
	aKind, aClients, _ := describe(a)
	bKind, bClients, _ := describe(b)
	if order := slices.Compare(sites(aClients), sites(bClients)); order != 0 {
		return order
	}
	return strings.Compare(aKind, bKind)
}

// describe returns the kind of l, its clients, and its options; nothing if l is a Locker of another module.
func describe(l locks.Locker) (kind string, clients []*locks.Client, opts []leases.Option) {
	switch l := l.(type) {
	case *locks.Mutex:
		return core.KindMutex, []*locks.Client{l.Client()}, l.Options()
	case *locks.RWMutex:
		return core.KindWrite, []*locks.Client{l.Client()}, l.Options()
	case locks.ReadLocker:
		m := core.OrZero(l.M)
		return core.KindRead, []*locks.Client{m.Client()}, m.Options()
	case *locks.FairMutex:
		return core.KindFair, []*locks.Client{l.Client()}, l.Options()
	case locks.PermitLocker:
		s := core.OrZero(l.PermitSemaphore)
		return core.KindPermit, []*locks.Client{s.Client()}, s.Options()
	case *RedLock:
		for _, part := range l.parts {
			clients = append(clients, part.Client())
			opts = part.Options()
		}
		return core.KindRedLock, clients, opts
	}
	return "", nil, nil
}

// first returns the first of the clients of describe, or nil, and the options. It allocates nothing for a mutex.
func first(l locks.Locker) (c *locks.Client, opts []leases.Option) {
	if m, ok := l.(*locks.Mutex); ok {
		return m.Client(), m.Options()
	}
	_, clients, opts := describe(l)
	if len(clients) > 0 {
		c = clients[0]
	}
	return c, opts
}

// sites returns the servers of clients, in order.
func sites(clients []*locks.Client) []string {
	all := make([]string, len(clients))
	for i, c := range clients {
		all[i] = c.Core().Site()
	}
	slices.Sort(all)
	return all
}
