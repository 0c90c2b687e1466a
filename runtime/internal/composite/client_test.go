package composite

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/core/coretest"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// opened returns a client with connections of its own to the server at url, which announce on channels, if any are given.
func opened(ctx context.Context, url string, s core.Settings, channels *transport.Channels) (*locks.Client, error) {
	return coretest.Open(ctx, url, s, channels, locks.New)
}
