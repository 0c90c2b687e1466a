package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// refusalPause is for how long a server that has refused a connection is not dialled again. A request needs a connection, and rueidis dials
// for each: a RedLock whose other servers are well would dial a server that is down thousands of times a second, on the cores that its
// callers need. The pause is short beside the time in which a server starts.
const refusalPause = 5 * time.Millisecond

// A dialer makes connections, as rueidis wants it.
type dialer = func(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error)

// refusals are the servers that have refused a connection a moment ago. They have sent nothing, so a dial that is spared has the same outcome.
type refusals struct {
	dial dialer

	mu sync.Mutex // guards the rest
	of map[string]refusal
}

type refusal struct {
	err error
	at  monotonic.Time
}

// pausing returns the options with a pause after each refusal.
func pausing(option rueidis.ClientOption) rueidis.ClientOption {
	r := &refusals{dial: option.DialCtxFn, of: map[string]refusal{}}
	if r.dial == nil {
		r.dial = dialTCP
	}
	option.DialCtxFn = r.connect
	return option
}

// connect dials a server, or returns why it refused to connect within the last refusalPause.
func (r *refusals) connect(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	r.mu.Lock()
	if last, refused := r.of[addr]; refused && monotonic.Since(last.at) < refusalPause {
		r.mu.Unlock()
		return nil, last.err
	}
	r.mu.Unlock()
	conn, err := r.dial(ctx, addr, d, secure)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := monotonic.Now()
	maps.DeleteFunc(r.of, func(_ string, old refusal) bool { return now.Sub(old.at) >= refusalPause }) // servers come and go
	switch {
	case refuses(ctx, err):
		r.of[addr] = refusal{err, now}
	case err == nil:
		delete(r.of, addr)
	}
	return conn, err
}

// refuses reports whether err, of a dial under ctx, is the answer of the system at once, and not the end of somebody's patience: another
// dial has patience of its own. A connection that was cut while it was dialled is no refusal either: the next one may last.
func refuses(ctx context.Context, err error) bool {
	dialled := (*net.OpError)(nil)
	return errors.As(err, &dialled) && dialled.Op == "dial" && !dialled.Timeout() && ctx.Err() == nil && !transport.CutWhileDialled(err)
}
