package locks

import (
	"reflect"
	"slices"
	"strings"
)

// compare reports whether two lockers of one key are the same lock, and if they are not, why they cannot be locked
// together.
func compare(a, b Locker) (alike bool, conflict string) {
	aKind, aClients, aOpts := describe(a)
	bKind, bClients, bOpts := describe(b)
	switch {
	case aKind == "" || bKind == "":
		return aKind == bKind && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b, ""
	case !slices.ContainsFunc(aClients, func(c *Client) bool { return slices.Contains(bClients, c) }):
		return false, ""
	case aKind != bKind:
		return false, "of kind " + min(aKind, bKind) + " and " + max(aKind, bKind)
	case aKind == kindPermit:
		return false, "for two permits: acquire them together"
	case !sameClients(aClients, bClients):
		return false, "as one of the servers of two red locks"
	case !sameOptions(aClients[0], aOpts, bOpts):
		return false, "with other options"
	}
	return true, ""
}

// sameClients reports whether a and b are the same clients, in whatever order.
func sameClients(a, b []*Client) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(c *Client) bool { return !slices.Contains(b, c) })
}

// sameOptions reports whether locks with the options a and b are granted on the same terms. The shorter wait counts for
// both.
func sameOptions(c *Client, a, b []LockOption) bool {
	one, err := configure(c.core(), a, nil)
	other, wrong := configure(c.core(), b, nil)
	if err != nil || wrong != nil {
		return true // and the first call returns the error
	}
	return one.Terms == other.Terms && one.maxHold == other.maxHold && one.limited == other.limited && one.linger == other.linger && one.backoff == other.backoff
}

// inOrder compares members by their keys, then by their servers, then by their kinds: everything that is the same for
// all processes. It asks for the servers only if the keys are equal.
func inOrder(a, b Locker) int {
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

// describe returns which kind of lock of this package l is, its clients, and its options; nothing if l is of another
// package.
func describe(l Locker) (kind string, clients []*Client, opts []LockOption) {
	switch l := l.(type) {
	case *Mutex:
		return kindMutex, []*Client{l.c}, l.opts
	case *RWMutex:
		return kindWrite, []*Client{l.c}, l.opts
	case ReadLocker:
		m := orZero(l.M)
		return kindRead, []*Client{m.c}, m.opts
	case *FairMutex:
		return kindFair, []*Client{l.c}, l.opts
	case PermitLocker:
		s := orZero(l.PermitSemaphore)
		return kindPermit, []*Client{s.c}, s.opts
	case *RedLock:
		for _, part := range l.parts {
			clients = append(clients, part.c)
			opts = part.opts
		}
		return kindRedLock, clients, opts
	}
	return "", nil, nil
}

// first returns the first of the clients of describe, or nil, and the options. It allocates nothing for a mutex.
func first(l Locker) (c *Client, opts []LockOption) {
	if m, ok := l.(*Mutex); ok {
		return m.c, m.opts
	}
	_, clients, opts := describe(l)
	if len(clients) > 0 {
		c = clients[0]
	}
	return c, opts
}

// sites returns the servers of clients, in order.
func sites(clients []*Client) []string {
	all := make([]string, len(clients))
	for i, c := range clients {
		all[i] = c.site()
	}
	slices.Sort(all)
	return all
}
