package transport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A cluster has the knowledge of a transport about the servers of a cluster. rueidis routes commands. The cluster's own
// knowledge of the owners of slots serves for subscriptions, which rueidis does not move, and for failovers.
type cluster struct {
	net      *Transport
	channels Channels
	resends  atomic.Uint64 // requests that runShared has sent again, while the ones before them may still arrive
	failover

	mu      sync.Mutex          // guards the rest
	pending map[string]*pending // renewals sent to a server
	owners  *owners
	asking  chan struct{} // closed when the question under way is answered; nil without one
	asked   time.Time     // when the last one was
	pause   time.Duration // after it
	silent  bool          // it was logged that the question is not permitted
}

// HasShardedChannels reports whether the servers of a cluster have sharded channels, as Redisson asks it: by a command that only
// such servers know. It asks all servers at once, and believes the first one that knows. A server that cannot answer now is
// asked again, after a pause for each refusal, since the answer holds for the life of the client: without sharded channels it
// would not hear programs that use them. It fails when no server has answered within a time.
func HasShardedChannels(rc rueidis.Client, within time.Duration, pause func(refused int) time.Duration) (has bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	nodes := rc.Nodes()
	answers := make(chan error)
	asked := func(node rueidis.Client) (again bool) {
		err := node.Do(context.Background(), node.B().Arbitrary("PUBSUB", "SHARDNUMSUB", "0").Build()).Error()
		select {
		case answers <- err:
		case <-ctx.Done():
		}
		return err != nil && Passing(err)
	}
	for _, node := range nodes {
		go func() {
			for refused := 1; asked(node); refused++ {
				select {
				case <-time.After(pause(refused)):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	err = fmt.Errorf("none of %d answers within %v", len(nodes), within)
	for left := len(nodes); left > 0; {
		select {
		case said := <-answers:
			switch {
			case said == nil:
				return true, nil
			case unheardOf(said):
				return false, nil
			case !Passing(said):
				left--
			}
			err = said
		case <-ctx.Done():
			return false, err
		}
	}
	return false, err
}

// Resent returns how many requests were sent again so far because the connection broke and the slot had another server. A request
// during which the number changed may have been one of them.
func (t *Transport) Resent() uint64 {
	if t.cluster == nil {
		return 0
	}
	return t.cluster.resends.Load()
}

// kinds returns on which kinds of channels a client subscribes to a name.
func (cl *cluster) kinds(name string) (plain, sharded bool) {
	switch own := protocol.ProcessChannel(cl.net.cfg.UUID); {
	case name == own:
		return true, false
	case strings.HasPrefix(name, own):
		return cl.channels == PlainChannels, cl.channels != PlainChannels
	}
	return cl.channels != ShardedChannels, cl.channels != PlainChannels
}

// nodeOf returns the address of the server that has the slot of a key or a channel, as far as is known.
func (cl *cluster) nodeOf(name string) string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.addrOf(name)
}

// addrOf is nodeOf for a caller that holds cl.mu.
func (cl *cluster) addrOf(name string) string {
	return cl.owners.addrs[cl.owners.of[protocol.Slot(name)]]
}

// serverOf returns the place of the server that has a key.
func (cl *cluster) serverOf(key string) uint16 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.owners.of[protocol.Slot(key)]
}

// note makes addr the owner of a slot.
func (cl *cluster) note(slot uint16, addr string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.owners.of[slot] = cl.owners.place(addr)
}

// owner returns a client of the server that has a slot, which follows no redirection: what is sent together stays
// together.
func (cl *cluster) owner(slot uint16) (rueidis.Client, error) {
	for range 2 {
		cl.mu.Lock()
		addr := cl.owners.addrs[cl.owners.of[slot]]
		cl.mu.Unlock()
		if node := cl.net.rc.Nodes()[addr]; node != nil {
			return node, nil
		}
		cl.ask()
	}
	return nil, fmt.Errorf("it is not known yet which server has slot %d", slot)
}

// heed sends the next request for a slot to the server that a redirection named, and reports whether there was one.
func (cl *cluster) heed(slot uint16, err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		if err != nil {
			cl.net.cfg.User.Go(cl.ask)
		}
		return false
	}
	addr, moved := said.IsMoved()
	if moved {
		cl.note(slot, addr)
	}
	return moved
}
