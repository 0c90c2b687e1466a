// Package policy has what each kind of lock decides: a [Mutex] that its grant goes from call to call, an [RW] who reads together, a [Fair] that each
// call stands in the wait queue of Redis for itself. Each is the resource of a key, and a resource.LineKind: package resource calls its methods to
// learn who asks, who follows whom, and which script a request needs.
package policy
