package unlock

import (
	"testing"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func TestLeaks(t *testing.T) {
	var c *lockrt.Client
	lease, err := c.Mutex("a").Lock(t.Context())
	t.Log(lease.Err(), err)
}
