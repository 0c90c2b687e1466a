package core

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Now is time.Now by the monotonic clock alone. Its results can be compared and subtracted; they differ from the wall
// clock by the changes of that clock since the process began.
func Now() time.Time { return monotonic.Now().Std() }
