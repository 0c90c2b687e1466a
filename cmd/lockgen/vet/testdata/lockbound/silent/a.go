package silent

import (
	"context"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func unasked(c *lockrt.Client) {
	_, _ = c.Mutex("a").Lock(context.Background())
}
