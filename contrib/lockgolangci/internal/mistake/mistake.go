// Package mistake has a mistake for the linter to find.
package mistake

import (
	"context"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Forget never unlocks its lease.
func Forget(ctx context.Context, client *lockrt.Client) error {
	lease, err := client.Mutex("k").Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Err()
}
