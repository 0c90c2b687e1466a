// Package leases has leases, their contexts and owners, the options of calls, and what hooks learn of calls and leases.
//
// A [Lease] is the right of one caller. Its [Grant] is what the process has in Redis, or, for a lease that consists of others, its [Parts]. A call
// that acquires is an [Attempt], which reports its begin and its end. Package lockrt defines its Lease by the one of this package, so that no field
// of it is exported; [Lease.Core] has what the packages above need.
package leases
