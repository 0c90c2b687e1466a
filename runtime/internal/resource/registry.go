package resource

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Registry has the entries of a client for the keys of one kind of lock: each from the first reference to it until
// the last one is gone.
type Registry[T registrable] struct {
	Client *Client // its Mu guards the rest
	create func(c *Client, key string) T
	all    engine.Table[string, T]
	latest atomic.Value // the entry that was found last, while it is one of all: callers of one key find it without Mu
	number uint8        // of the registry
}

// NewRegistry returns a registry of c, whose entries create makes.
func NewRegistry[T registrable](c *Client, create func(c *Client, key string) T) *Registry[T] {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	keyOf := func(one T) string { return one.references().Key }
	g := &Registry[T]{Client: c, create: create, all: engine.NewTable(keyOf), number: uint8(len(c.registries))} // one for each kind of lock
	c.registries = append(c.registries, g)
	return g
}

// Enter returns the entry of key for a call, until the call calls [Referenced.Exit]. It refuses a call once the client grants nothing any
// more, unless anyway is set, as for a call that releases.
func (g *Registry[T]) Enter(key string, anyway bool) (T, error) {
	g.Client.Mu.Lock()
	defer g.Client.Mu.Unlock()
	if err := g.Client.Begins(anyway); err != nil {
		var none T
		return none, err
	}
	one := g.all.GetOrAdd(key, func() T {
		one := g.create(g.Client, key)
		one.references().registry = g.number
		return one
	})
	one.references().Users.Add(1)
	return one, nil
}

// Find returns the entry of key, if there is one. The registry may forget the entry at any moment, but not while the process holds the key
// in Redis.
func (g *Registry[T]) Find(key string) (one T, ok bool) {
	var none T
	if latest, some := g.latest.Load().(T); some && latest != none && latest.references().Key == key {
		return latest, true
	}
	g.Client.Mu.Lock()
	defer g.Client.Mu.Unlock()
	if one, ok = g.all.Get(key); ok {
		g.latest.Store(one)
	}
	return one, ok
}

// Entries returns the entry of key, or all entries if key is empty.
func (g *Registry[T]) Entries(key string) []T {
	g.Client.Mu.Lock()
	defer g.Client.Mu.Unlock()
	if key == "" {
		return slices.Collect(g.all.All())
	}
	if one, ok := g.all.Get(key); ok {
		return []T{one}
	}
	return nil
}

// Size returns the number of entries.
func (g *Registry[T]) Size() int {
	g.Client.Mu.Lock()
	defer g.Client.Mu.Unlock()
	return g.all.Size()
}

// client returns the client of g, or nil if g is nil.
func (g *Registry[T]) client() *core.Client {
	if g == nil {
		return nil
	}
	return g.Client.Core()
}

func (g *Registry[T]) list(key string, all []Registered) []Registered {
	if key != "" {
		if one, ok := g.all.Get(key); ok {
			all = append(all, one)
		}
		return all
	}
	for one := range g.all.All() {
		all = append(all, one)
	}
	return all
}

func (g *Registry[T]) forget(key string) {
	if one, ok := g.all.Remove(key); ok {
		var none T
		g.latest.CompareAndSwap(one, none)
	}
}

// A Registered is one entry: what a client has for a key.
type Registered interface {
	references() *Referenced
	// Held returns the grants of this process.
	Held() []*Grant
	// Changed is called when Redis may have changed the key.
	Changed()
	// EndsLinger releases a grant that lingers.
	EndsLinger()
	// Guards returns the leases that the watchdog guards.
	Guards() []*watchdog.Lease
	// EachWaiting calls f for the waiters, with the kind of lock that they wait for, and keeps the entry as it is meanwhile.
	EachWaiting(f func(w *Waiter, kind string))
	// Close ends the leases of the key because the client is closed.
	Close()
}

// A registrable is a Registered that can be compared with none, the zero value.
type registrable interface {
	comparable
	Registered
}

// An anyRegistry is a Registry of any kind of lock.
type anyRegistry interface {
	// list appends the entry of key to all, or each entry if key is empty. The caller holds Mu of the client.
	list(key string, all []Registered) []Registered
	// forget removes the entry of key. The caller holds Mu of the client.
	forget(key string)
}

// A Referenced is the common part of all entries: the references to an entry, and its lock.
type Referenced struct {
	Client   *Client
	Key      string
	Users    atomic.Int32 // calls, grants and requests that refer to it; it becomes 0, or 1 from 0, under Mu of the client
	registry uint8        // the number of its registry
	Shut     bool         // the client is closed: no call enters a lock any more; guarded by Mu
	Mu       sync.Mutex   // guards what the entry has for its key; never held while waiting for anything
}

func (e *Referenced) references() *Referenced { return e }

// Stay counts one more reference to an entry that has one.
func (e *Referenced) Stay() {
	e.Users.Add(1)
}

// Quit undoes Stay.
func (e *Referenced) Quit() {
	for n := e.Users.Load(); n > 1; n = e.Users.Load() {
		if e.Users.CompareAndSwap(n, n-1) {
			return
		}
	}
	e.Client.Mu.Lock()
	defer e.Client.Mu.Unlock()
	if e.Users.Add(-1) == 0 {
		e.Client.registries[e.registry].forget(e.Key)
	}
}

// Exit ends a call that has entered.
func (e *Referenced) Exit() {
	e.Quit()
	e.Client.Finished()
}

// Inside enters the entry of key, and returns the result of call with that entry.
func Inside[T registrable, A any](g *Registry[T], op, key string, call func(one T) (A, error)) (A, error) {
	var one T
	err := g.client().CheckKey(key)
	if err == nil {
		one, err = g.Enter(key, false)
	}
	if err != nil {
		var none A
		return none, &observe.Error{Op: op, Key: key, Err: err}
	}
	defer one.references().Exit()
	return call(one)
}

// GrantsOf returns the grants of all locks named key in this process.
func (c *Client) GrantsOf(key string) (all []*Grant) {
	c.each(key, func(one Registered) { all = append(all, one.Held()...) })
	return all
}

// each calls f for the entries of key, or for all if key is empty.
func (c *Client) each(key string, f func(one Registered)) {
	c.Mu.Lock()
	var all []Registered
	for _, g := range c.registries {
		all = g.list(key, all)
	}
	c.Mu.Unlock()
	for _, one := range all {
		f(one)
	}
}
