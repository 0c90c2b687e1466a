package transport

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A cluster has the knowledge of a transport about the servers of a cluster. rueidis routes commands. The cluster's own
// knowledge of the owners of slots serves for subscriptions, which rueidis does not move, and for failovers.
//
// The servers that have taken slots from others, as a replica does from a master that failed, may miss the last writes. So the leases
// there are confirmed at once, and waiters listen there. rueidis learns of them as well, but up to a second later. Until it knows
// the new master, commands are redirected there, see [cluster.route].
type cluster struct {
	link      *link
	hub       *hub.Hub
	resends   atomic.Uint64 // requests that were sent again, while the ones before them may still arrive
	redirects atomic.Int32  // len(fresh)

	mu      sync.Mutex // guards the rest
	owners  *owners
	numbers map[string]uint16      // of all servers so far, by their addresses, see [Transport.Server]; a number stays
	said    map[uint16]redirection // of slots whose owner a server has named since the last answer; they are in owners, too
	fresh   map[string]bool        // new masters; true while rueidis is asked whether it knows one
	asking  chan struct{}          // closed when the question under way is answered, or late; nil without one
	asked   time.Time              // when the last one was
	glanced time.Time              // when one server was asked for a change last, see glance
	pause   time.Duration          // after it
	latest  uint64                 // the number of the last question
	known   uint64                 // the number of the question whose answer is in owners
	silent  bool                   // it was logged that the question is not permitted
}

// A redirection is the word of a server that another one has a slot.
type redirection struct {
	from   string // the owner before, of which the leases are not confirmed yet
	latest uint64 // the number of the last question when it came: answers up to this one may be older
}

func newCluster(l *link) *cluster {
	return &cluster{
		link: l, owners: newOwners(), numbers: map[string]uint16{"": 0}, said: map[uint16]redirection{}, fresh: map[string]bool{}, glanced: time.Now(),
	}
}

// nodeOf returns the address of the server that has the slot of a key or a channel, as far as is known; nothing if there is no cluster.
func (cl *cluster) nodeOf(name string) string {
	if cl == nil {
		return ""
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.addrOf(name)
}

// addrOf is nodeOf for a caller that holds cl.mu.
func (cl *cluster) addrOf(name string) string {
	return cl.owners.addr(protocol.Slot(name))
}

// numberOf returns the number of the server that has the slot of a key, as far as is known, or 0. The places among the owners are no such numbers: each
// answer may have the servers in another order.
func (cl *cluster) numberOf(key string) uint16 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	addr := cl.addrOf(key)
	n, known := cl.numbers[addr]
	if !known {
		n = uint16(len(cl.numbers))
		cl.numbers[addr] = n
	}
	return n
}

// present returns the present owners. Each answer to the question of [cluster.ask] has new ones.
func (cl *cluster) present() *owners {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.owners
}

// note makes addr the owner of a slot, as a server says. The next answer to [cluster.ask] has the leases there confirmed.
func (cl *cluster) note(slot uint16, addr string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	from := cl.owners.addr(slot)
	if before, known := cl.said[slot]; known {
		from = before.from
	}
	cl.said[slot] = redirection{from, cl.latest}
	cl.owners.of[slot] = cl.owners.place(addr)
}

const (
	// askPause is how long an answer to the question of [cluster.ask] counts as current. It is twice as long after each further answer
	// that is the same, up to askRarely.
	askPause  = 20 * time.Millisecond
	askRarely = 100 * time.Millisecond
	// askPatience is the time limit of the first server.
	askPatience = time.Second
	// glanceEvery is the least time between two calls of [cluster.glance] that ask.
	glanceEvery = 5 * time.Second
)

// ask asks the servers which of them has which slot, and returns when that is known, or no server says so in time. An answer that comes later
// counts, too: the next question may take as long.
func (cl *cluster) ask() {
	cl.mu.Lock()
	if done := cl.asking; done != nil {
		cl.mu.Unlock()
		<-done
		return
	}
	done := make(chan struct{})
	cl.asking = done
	wait := max(cl.pause, askPause) - time.Since(cl.asked)
	cl.pause = min(2*max(cl.pause, askPause/2), askRarely)
	cl.latest++
	number := cl.latest
	cl.mu.Unlock()
	if wait > 0 {
		cl.link.pause(wait)
	}
	counted := make(chan struct{})
	cl.link.cfg.User.Go(func() { cl.count(number, counted) })
	pause(askPatience, cl.link.cfg.Stopped, counted)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.asking, cl.asked = nil, time.Now()
	close(done)
}

// glance asks one server for the owners once in a while, and all servers if it names others than those that are known. A slot can get another owner while all
// connections are well: rueidis follows without a word, and a server ends no subscription to a plain channel, nor to a sharded one when it becomes a replica.
// glance does not block.
func (cl *cluster) glance() {
	cl.mu.Lock()
	due := time.Since(cl.glanced) >= glanceEvery
	if due {
		cl.glanced = time.Now()
	}
	cl.mu.Unlock()
	if !due {
		return
	}
	for addr, node := range cl.link.rc.Nodes() {
		cl.link.cfg.User.Detach(func() {
			if named, err := spans(addr, node); err == nil && cl.differs(named) {
				cl.ask()
			}
		})
		return // any one will do
	}
}

// differs reports whether some slots have another owner than is known.
func (cl *cluster) differs(named []span) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return slices.ContainsFunc(named, func(sp span) bool {
		place := slices.Index(cl.owners.addrs, sp.addr)
		return slices.ContainsFunc(cl.owners.of[sp.first:sp.last+1], func(of uint16) bool { return int(of) != place })
	})
}

// count has the servers answer a question, and closes counted when they have.
func (cl *cluster) count(number uint64, counted chan struct{}) {
	voted, err := cl.link.vote()
	cl.mu.Lock()
	var moved *[protocol.Slots]bool
	switch {
	case voted != nil && number > cl.known: // no later question has an answer
		cl.silent, cl.known = false, number
		if moved = cl.learn(number, voted); moved != nil {
			cl.pause = askPause
		}
	case err != nil && number > cl.known && !cl.silent:
		cl.silent = true
		cl.link.cfg.Logger.Warn("lockgen: the cluster does not say which server has what; waiters ask by timer until it does", "error",
			fmt.Errorf("a permission is missing, which ACL LOG on the server names: %w", err))
	}
	cl.mu.Unlock()
	close(counted)
	if moved != nil {
		cl.moved(moved)
	}
}

// learn replaces the known owners of slots by those of the answer to a question. The owner of a slot stays if the answer names none, or if a server
// has named this owner since the question. learn returns the slots that had another owner before, or nil. The caller holds cl.mu.
func (cl *cluster) learn(number uint64, now *owners) (moved *[protocol.Slots]bool) {
	before := cl.owners
	cl.owners = now
	for i := range protocol.Slots {
		slot := uint16(i)
		from := before.addr(slot)
		if now.addr(slot) == "" {
			now.of[i] = now.place(from)
			continue
		}
		if said, known := cl.said[slot]; known {
			if number > said.latest {
				delete(cl.said, slot)
			} else {
				now.of[i] = now.place(from)
				cl.said[slot] = redirection{from, said.latest}
			}
			from = said.from
		}
		to := now.addr(slot)
		if from == to || from == "" {
			continue
		}
		if moved == nil {
			moved = new([protocol.Slots]bool)
		}
		moved[i] = true
		if !cl.fresh[to] {
			cl.fresh[to] = false
		}
	}
	for addr, asked := range cl.fresh {
		if !asked && !slices.Contains(now.addrs, addr) { // it has lost them again
			delete(cl.fresh, addr)
		}
	}
	cl.redirects.Store(int32(len(cl.fresh)))
	return moved
}

// moved confirms the leases whose slots have another owner.
func (cl *cluster) moved(moved *[protocol.Slots]bool) {
	cl.link.cfg.Logger.Info("lockgen: some slots are with another server now; the client checks what it holds there")
	cl.link.cfg.User.Recheck(func(key string) bool { return moved[protocol.Slot(key)] })
	cl.hub.Reassign()
}
