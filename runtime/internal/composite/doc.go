// Package composite has the locks that consist of others: a [MultiLock] needs all of its members, and a [RedLock] a majority of the mutexes on its
// servers. Their leases consist of the leases of their parts, see lease.go. Package quorum counts the majorities.
package composite
