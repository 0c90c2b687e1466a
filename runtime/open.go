package lockrt

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// Open returns a Client with connections of its own, which [Client.Close] closes. The url is redis://user:password@host:port/db, rediss://
// for TLS, see [Options.TLS], or unix://user:password@/path/of/socket?db=1; of a cluster redis://host:port?addr=host:port, or one address
// with ?cluster=true; of Sentinels with ?master_set=name, and &sentinel_username=name&sentinel_password=word if they need it. Open uses
// TLS for the Sentinels if it does for the master.
//
// Open connects once, unless [Options.StartWithoutServer] is set. It fails with [ErrBadOption], with the error of ctx, which bounds this
// call only, or with an error of the server or network. CLIENT LIST shows the connections as lockgen:<Client.ID>:<host>:<pid>. Redisson's
// Redisson.create.
func Open(ctx context.Context, url string, opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, fmt.Errorf("lockgen: open: %w: the context is nil", ErrBadOption)
	}
	conn, err := connect.Open(ctx, url, opts.ofConnections())
	if err != nil {
		return nil, err
	}
	return (*Client)(locks.New(conn, opts.settings())), nil
}
