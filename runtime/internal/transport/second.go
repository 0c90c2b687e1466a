package transport

import (
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// second is a connection to each server beside the shared one, for requests that cannot wait while another one has no
// answer for too long. All such requests share it: a connection for each of them would take a round trip to open and
// another one to close. It is made when it is needed, replaced when it has a request without an answer for too long
// itself, and closed when no request has needed it for a while.
type second struct {
	link    *link
	cluster *cluster      // nil unless the servers are one
	rest    time.Duration // a connection is closed that no request has needed for this long

	mu     sync.Mutex
	to     map[rueidis.Client]*extra
	closed bool
}

// An extra is a connection of a second. It is closed when it is retired and its last request is over.
type extra struct {
	server  rueidis.Client
	servers string                  // that the client had before it was made
	made    chan struct{}           // closed when conn is set
	conn    rueidis.DedicatedClient // nil if it could not be made
	pending pending                 // requests, from before the connection is made

	// Guarded by second.mu.
	users   int
	retired bool        // no request takes it any more
	idle    *time.Timer // retires it; nil before the first user has left
}

// secondFor is the rest of a second, but in tests.
const secondFor = 10 * time.Second

// run sends a command over the second connection to the server that has its key. It reports whether there is one.
func (s *second) run(cmd protocol.Command) (reply rueidis.RedisResult, ok bool) {
	replies, ok := s.runAll([]protocol.Command{cmd})
	if !ok {
		return reply, false
	}
	return replies[0], true
}

// runAll sends commands whose keys one server has over the second connection to it, in one round trip. It reports whether there is one.
func (s *second) runAll(cmds []protocol.Command) (replies []rueidis.RedisResult, ok bool) {
	server := s.link.rc
	if s.cluster != nil {
		server = server.Nodes()[s.cluster.nodeOf(cmds[0].Keys[0])]
	}
	if server == nil {
		return nil, false
	}
	x, answered := s.take(server)
	broken := true
	defer func() {
		answered()
		s.leave(x, broken)
	}()
	if <-x.made; x.conn == nil {
		return nil, false
	}
	over := sender(x.conn)
	if s.cluster != nil {
		over = redirect{x.conn, s.link.rc}
	}
	replies, broken = s.link.together(over, cmds), false
	for i, reply := range replies {
		replies[i] = s.link.broken(reply)
		broken = broken || reply.NonRedisError() != nil
	}
	return replies, true
}

// take returns a connection that answers, or is being made, until leave, and notes a request over it.
func (s *second) take(server rueidis.Client) (x *extra, answered func()) {
	servers := s.link.servers()
	s.mu.Lock()
	defer s.mu.Unlock()
	if x = s.to[server]; x != nil && x.servers == servers {
		if answered, ok := x.pending.begin(s.link.Patience()); ok {
			x.users++
			return x, answered
		}
	}
	if x != nil {
		s.retire(x)
	}
	x = &extra{server: server, servers: servers, made: make(chan struct{}), users: 1, retired: s.closed}
	if !s.closed {
		s.to[server] = x
	}
	go func() {
		defer close(x.made)
		x.conn = s.link.dedicate(nil, server) // also while the client is closed
	}()
	return x, x.pending.note()
}

// leave ends the use of x, and has no request take it any more if it is broken.
func (s *second) leave(x *extra, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.users--
	switch {
	case broken:
		s.retire(x)
	case x.users > 0:
	case x.retired:
		s.drop(x)
	case x.idle == nil:
		x.idle = time.AfterFunc(s.rest, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if x.users == 0 && !x.retired { // no request has taken it meanwhile
				s.retire(x)
			}
		})
	default:
		x.idle.Reset(s.rest)
	}
}

// retire makes no request take x any more. The caller holds s.mu.
func (s *second) retire(x *extra) {
	x.retired = true
	if s.to[x.server] == x {
		delete(s.to, x.server)
	}
	if x.users == 0 {
		s.drop(x)
	}
}

// drop closes the connection of x, which has no users. The caller holds s.mu.
func (s *second) drop(x *extra) {
	if x.idle != nil {
		x.idle.Stop()
	}
	if x.conn != nil {
		s.link.cfg.User.Go(x.conn.Close)
	}
}

// close retires all connections. Requests that come later have one each.
func (s *second) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, x := range s.to {
		s.retire(x)
	}
}
