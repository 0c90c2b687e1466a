package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// now is time.Now by the monotonic clock alone: what it returns is right to compare and to subtract, and off by
// what the wall clock was set since the process began.
func now() time.Time { return monotonic.Now().Std() }
