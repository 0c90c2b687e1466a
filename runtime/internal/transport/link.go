package transport

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A link is what all parts of a transport share: the client of rueidis, the scripts that its servers have, and how fast they answer.
// [link.runOn] sends a command over the connection that its caller chooses.
type link struct {
	rc       rueidis.Client
	cfg      Config
	askAll   func() // of a cluster: asks the servers which of them has which slot; nil if there is one server
	loads    atomic.Uint64
	loadMu   sync.Mutex   // guards loading, and loads is changed with it
	loading  *loading     // the attempt to load the scripts that is under way, or nil
	sending  sync.Map     // the addresses of the servers to which all scripts are being sent
	without  sync.Map     // the servers without scripts, each a lacking, of which the log has a line
	portions sync.Map     // by address, of servers that failed to load so many scripts together: how many go together next
	spoke    atomic.Int64 // when the server answered last, a monotonic.Time
	closing  atomic.Int64 // since when requests fail because their connection is closed, a monotonic.Time; 0 if they do not
	over     atomic.Bool  // the client of rueidis is closed for good
	pace     pace
	traffic  traffic
}

// A loading is an attempt to send every script to every server, see [link.load].
type loading struct {
	over chan struct{} // closed when it has succeeded, or failed
	late chan struct{} // closed when no request waits for it any more
}

// A sender is a client of rueidis, or one connection of it.
type sender interface {
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
}

// Addrs returns the addresses of the servers, sorted.
func (l *link) Addrs() []string { return slices.Sorted(maps.Keys(l.rc.Nodes())) }

// servers returns one name for all servers, which changes with them.
func (l *link) servers() string { return strings.Join(l.Addrs(), " ") }

// fromAll asks all servers at once, and calls take with each answer, until all have answered, or the client is stopped. From the first answer
// without an error on, the others have the time grace. Close does not wait for a server that does not answer.
func fromAll[A any](l *link, grace time.Duration, ask func(addr string, node rueidis.Client) (A, error), take func(answer A, err error)) {
	type reply struct {
		answer A
		err    error
	}
	nodes := l.rc.Nodes()
	replies := make(chan reply, len(nodes))
	for addr, node := range nodes {
		l.cfg.User.Detach(func() {
			answer, err := ask(addr, node)
			replies <- reply{answer, err}
		})
	}
	var late <-chan time.Time
	for range nodes {
		select {
		case r := <-replies:
			if r.err == nil && late == nil {
				late = time.After(grace)
			}
			take(r.answer, r.err)
		case <-late:
			return
		case <-l.cfg.Stopped:
			return
		}
	}
}

// Patience returns how long a connection may take for an answer before another one is tried: several times the recent
// response time. Where all answers are slow, a repeated request makes them slower.
func (l *link) Patience() time.Duration { return max(leastPatience, 4*l.pace.typical()) }

// stopped reports whether the client was stopped.
func (l *link) stopped() bool { return closed(l.cfg.Stopped) }

// closed reports whether a channel is closed to which nothing is sent.
func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// pause waits for d, and reports false if the client was stopped meanwhile.
func (l *link) pause(d time.Duration) bool { return pause(d, l.cfg.Stopped, nil) }

// pause waits for d, and reports false if one of two channels was closed meanwhile, of which the second can be nil.
func pause(d time.Duration, stopped, gone <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stopped:
	case <-gone:
	}
	return false
}

// dedicate returns a connection for the caller alone, which closes it, or nil if stopped is closed meanwhile, or there is none within
// OpTimeout: a client of the user's may be out of connections for as long as it likes.
func (l *link) dedicate(stopped <-chan struct{}, rc rueidis.Client) rueidis.DedicatedClient {
	late := time.NewTimer(l.cfg.OpTimeout)
	defer late.Stop()
	return dedicateUntil(stopped, late.C, rc)
}

// dedicateUntil is dedicate for a caller that waits until late is readable.
func dedicateUntil(stopped <-chan struct{}, late <-chan time.Time, rc rueidis.Client) rueidis.DedicatedClient {
	got := make(chan rueidis.DedicatedClient)
	over := make(chan struct{})
	defer close(over)
	go func() {
		conn, release := rc.Dedicate()
		select {
		case got <- conn:
		case <-over:
			release()
		}
	}()
	select {
	case conn := <-got:
		return conn
	case <-late:
	case <-stopped:
	}
	return nil
}

// broken returns reply, which came over an exclusive connection. When that breaks, rueidis can say that the client is
// closing, as it does of a request that was not sent. But this request may have been, and the client goes on.
func (l *link) broken(reply rueidis.RedisResult) rueidis.RedisResult {
	if errors.Is(reply.NonRedisError(), rueidis.ErrClosing) && !l.stopped() {
		return rueidis.NewErrorResult(errBroke)
	}
	return reply
}
