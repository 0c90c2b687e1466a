package meter

import (
	"maps"
	"strings"
	"sync"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Clients are the clients whose own counts are collected, which no hook reports. The zero value has none. It is safe for concurrent use.
type Clients struct {
	mu  sync.Mutex
	all map[string]*watched
}

type watched struct{ client *lockrt.Client }

// Watch adds a client, in place of one that has the same name, until end is called.
func (s *Clients) Watch(name string, c *lockrt.Client) (end func()) {
	name = strings.ToValidUTF8(name, "\uFFFD") // metrics libraries refuse or drop other text
	one := &watched{c}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*watched{}
	}
	s.all[name] = one
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[name] == one {
			delete(s.all, name)
		}
	}
}

// Each calls report with the counts of each client.
func (s *Clients) Each(report func(name string, counts lockrt.Stats)) {
	s.mu.Lock()
	all := maps.Clone(s.all)
	s.mu.Unlock()
	for name, one := range all {
		report(name, one.client.Stats())
	}
}
