package locks

import "github.com/lockgen/lockgen/runtime/internal/fleet"

// rwKind returns the kind of a read-write lock for its writer or its readers.
func rwKind(write bool) string {
	if write {
		return kindWrite
	}
	return kindRead
}

// ownerName returns the owner of t for the log: as in Redis, or "" for a lock of several parts.
func (t *leaseCore) ownerName() string {
	if t.guard == nil {
		return ""
	}
	return fleet.OwnerOf(t.guard)
}
