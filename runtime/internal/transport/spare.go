package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// spares are connections to servers beside the shared ones, for requests that cannot wait while another one has no
// answer for too long. All such requests to a server share one: a connection for each of them would take a round trip to open and
// another one to close. It is made when it is needed, replaced when it has a request without an answer for too long
// itself, and closed when no request has needed it for a while.
type spares struct {
	link    *link
	cluster *cluster      // nil unless the servers are one
	rest    time.Duration // a connection is closed that no request has needed for this long

	mu sync.Mutex
	to map[string]*spare // those that a request may take, by the addresses of their servers; nil when the client is closed
}

// A spare is a connection to a server. It is closed when no request may take it any more and its last request is over.
type spare struct {
	addr    string                  // of its server in a cluster, else empty
	servers string                  // that the client had before it was made
	made    chan struct{}           // closed when conn is set
	conn    rueidis.DedicatedClient // nil if it could not be made
	pending pending                 // requests, from before the connection is made

	// Guarded by spares.mu.
	users  int
	broken bool        // a request has found it so
	idle   *time.Timer // retires it; nil before the first user has left
}

// spareRest is the rest of spares, but in tests.
const spareRest = 10 * time.Second

// errUnneeded is the error of a command that was not sent.
var errUnneeded = &net.OpError{Op: "dial", Err: errors.New("the command is answered meanwhile")}

// run sends a command over the spare connection to the server that has its key, unless needed, which can be nil, says that it is needed no more. It reports
// whether there is one.
func (s *spares) run(needed func() bool, cmd protocol.Command) (reply rueidis.RedisResult, ok bool) {
	replies, ok := s.runAll(needed, []protocol.Command{cmd})
	if !ok {
		return reply, false
	}
	return replies[0], true
}

// runAll is run for commands whose keys one server has, in one round trip.
func (s *spares) runAll(needed func() bool, cmds []protocol.Command) (replies []rueidis.RedisResult, ok bool) {
	server, addr := s.link.rc, ""
	if s.cluster != nil {
		addr = s.cluster.nodeOf(cmds[0].Keys[0])
		server = server.Nodes()[addr] // another object each time
	}
	if server == nil {
		return nil, false
	}
	x, answered := s.take(server, addr)
	broken := true
	defer func() {
		answered()
		s.leave(x, broken)
	}()
	if <-x.made; x.conn == nil {
		return nil, false
	}
	if needed != nil && !needed() {
		broken = false
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(errUnneeded)}, len(cmds)), true
	}
	over := sender(x.conn)
	if s.cluster != nil {
		over = redirect{x.conn, s.link.rc}
	}
	// Under a context that can end, rueidis sends a command at once. Else a command waits until the one before it is answered.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	replies, broken = s.link.together(ctx, over, cmds), false
	for i, reply := range replies {
		replies[i] = s.link.broken(reply)
		broken = broken || reply.NonRedisError() != nil
	}
	return replies, true
}

// take returns a connection to server, whose address is addr in a cluster, that answers, or is being made, until leave. It notes a request
// over it.
func (s *spares) take(server rueidis.Client, addr string) (x *spare, answered func()) {
	servers := s.link.servers()
	s.mu.Lock()
	defer s.mu.Unlock()
	if x = s.to[addr]; x != nil && x.servers == servers {
		if answered, ok := x.pending.begin(s.link.Patience()); ok {
			x.users++
			return x, answered
		}
	}
	if x != nil {
		s.retire(x)
	}
	x = &spare{addr: addr, servers: servers, made: make(chan struct{}), users: 1}
	if s.to != nil {
		s.to[addr] = x
	}
	go func() {
		defer close(x.made)
		x.conn = s.link.dedicate(nil, server) // also while the client is closed
	}()
	return x, x.pending.note()
}

// leave ends the use of x, and has no request take it any more if it is broken. One that has answered takes the place of one that is still being
// made: where that takes long, requests find it late, and none would ever be taken.
func (s *spares) leave(x *spare, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.users--
	x.broken = x.broken || broken // and stays so, also when another request has got its answer before
	if next := s.to[x.addr]; !x.broken && next != nil && next.servers == x.servers && !next.isMade() {
		s.to[x.addr] = x
	}
	switch {
	case x.broken:
		s.retire(x)
	case x.users > 0:
	case s.to[x.addr] != x: // it is retired
		s.drop(x)
	case x.idle == nil:
		x.idle = time.AfterFunc(s.rest, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if x.users == 0 && s.to[x.addr] == x { // no request has taken it meanwhile
				s.retire(x)
			}
		})
	default:
		x.idle.Reset(s.rest)
	}
}

// retire makes no request take x any more. The caller holds s.mu.
func (s *spares) retire(x *spare) {
	if s.to[x.addr] == x {
		delete(s.to, x.addr)
	}
	if x.users == 0 {
		s.drop(x)
	}
}

// isMade reports whether the connection is made, or could not be.
func (x *spare) isMade() bool { return closed(x.made) }

// drop closes the connection of x, which has no users. The caller holds s.mu.
func (s *spares) drop(x *spare) {
	if x.idle != nil {
		x.idle.Stop()
	}
	if x.conn != nil {
		s.link.cfg.User.Go(x.conn.Close)
	}
}

// close retires all connections. Requests that come later have one each.
func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.to {
		s.retire(x)
	}
	s.to = nil
}
