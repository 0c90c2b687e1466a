package locks

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A registry has the entries of a client for the keys of one kind of lock: each from the first reference to it until
// the last one is gone.
type registry[T registered] struct {
	c      *clientLine // its mu guards the rest
	create func(c *clientLine, key string) T
	all    map[string]T
	number uint8 // of the registry
}

// A registered is one entry: what a client has for a key.
type registered interface {
	references() *referenced
	// held returns the grants of this process.
	held() []*grant
	// changed is called when Redis may have changed the key.
	changed()
	// rest releases a grant that lingers.
	endsLinger()
	// close ends the leases of the key because the client is closed.
	close()
}

// The entries are those of a registry of any kind.
type entries interface {
	each(key string, f func(one registered))
	forget(key string)
}

func newRegistry[T registered](c *clientLine, create func(c *clientLine, key string) T) *registry[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &registry[T]{c: c, create: create, all: map[string]T{}, number: uint8(len(c.registries))} // one for each kind of lock
	c.registries = append(c.registries, g)
	return g
}

// enter returns the entry of key for a call, until exit. A call that releases can enter when the client is closed, too.
func (g *registry[T]) enter(key string, closing bool) (T, error) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	if g.c.state != open && !closing {
		var none T
		return none, failure.ErrClosed
	}
	one, ok := g.all[key]
	if !ok {
		one = g.create(g.c, key)
		g.all[key] = one
		one.references().registry = g.number
	}
	one.references().users++
	g.c.running++
	return one, nil
}

// known returns the entry of key, if there is one. It may be dropped at any moment, but not while the process holds the
// key in Redis.
func (g *registry[T]) known(key string) (one T, ok bool) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	one, ok = g.all[key]
	return one, ok
}

// inside returns the result of a call about key, which has the entry of that.
func inside[T registered, A any](g *registry[T], op, key string, call func(one T) (A, error)) (A, error) {
	var one T
	err := g.c.checkKey(key)
	if err == nil {
		one, err = g.enter(key, false)
	}
	if err != nil {
		var none A
		return none, &observe.Error{Op: op, Key: key, Err: err}
	}
	defer one.references().exit()
	return call(one)
}

// grantsOf returns the grants of all locks named key in this process.
func (c *clientLine) grantsOf(key string) (all []*grant) {
	c.each(key, func(one registered) { all = append(all, one.held()...) })
	return all
}

// each calls f for the entries of key, or for all if key is empty.
func (c *clientLine) each(key string, f func(one registered)) {
	c.mu.Lock()
	registries := c.registries
	c.mu.Unlock()
	for _, g := range registries {
		g.each(key, f)
	}
}

// some returns the entry of key, or all if key is empty.
func (g *registry[T]) some(key string) []T {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	if key == "" {
		return slices.Collect(maps.Values(g.all))
	}
	if one, ok := g.all[key]; ok {
		return []T{one}
	}
	return nil
}

// size returns the number of entries.
func (g *registry[T]) size() int {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	return len(g.all)
}

func (g *registry[T]) each(key string, f func(one registered)) {
	for _, one := range g.some(key) {
		f(one)
	}
}

// forget drops the entry of key. The caller holds the lock of the client.
func (g *registry[T]) forget(key string) { delete(g.all, key) }

// A referenced is one entry of a registry.
type referenced struct {
	c        *clientLine
	key      string
	users    int32      // calls, grants and requests that refer to it; guarded by c.mu
	registry uint8      // its number
	shut     bool       // the client is closed: no call enters a lock any more; guarded by mu
	mu       sync.Mutex // of what the entry has for its key; never held while waiting for anything
}

func (e *referenced) references() *referenced { return e }

// stay counts one more reference to an entry that has one.
func (e *referenced) stay() {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.users++
}

// quit undoes stay.
func (e *referenced) quit() {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.users--
	if e.users == 0 {
		e.c.registries[e.registry].forget(e.key)
	}
}

// exit ends a call that entered.
func (e *referenced) exit() {
	e.quit()
	e.c.finished()
}
