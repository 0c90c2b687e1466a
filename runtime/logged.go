package lockrt

// What the log calls that is no kind of lock.
const (
	kindElection = "election"
	kindSchedule = "schedule"
)

// rwKind returns the kind of a read-write lock for its writer or its readers.
func rwKind(write bool) string {
	if write {
		return kindWrite
	}
	return kindRead
}

// ownerName returns what the log calls the owner of t: as in Redis, or nothing for a lock that consists of several.
func (t *leaseCore) ownerName() string {
	if t.guard == nil {
		return ""
	}
	return ownerOf(t.guard)
}
