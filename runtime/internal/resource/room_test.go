package resource

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// TestAcquireOp_Room shows that a grant that may linger, and so stay for longer than others that were granted together with it, is in a
// piece of memory of its own.
func TestAcquireOp_Room(t *testing.T) {
	t.Parallel()
	w := engine.NewWaiter[Wish]()
	rooms := make([]Grant, 2)
	op := AcquireOp{Room: &rooms[1]}
	require.Same(t, &rooms[1], op.room(w))
	require.NotNil(t, (&AcquireOp{}).room(w))
	w.Linger = int32(time.Second / time.Microsecond)
	require.NotSame(t, &rooms[1], op.room(w))
}
