// Package policy has what each kind of lock decides. A [Mutex] lets its grant go from call to call. An [RW] lets readers share a grant. A [Fair]
// has a place in the wait queue of Redis for each call. Each of them is the resource of a key, and a resource.LineKind: package resource calls
// its methods to learn which waiter asks, which one follows another, and which script a request needs.
package policy
