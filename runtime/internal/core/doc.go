// Package core has what all locks of a client share: its settings and connections, the watchdog, the goroutines, the counts, and how it ends. A
// [Client] here knows neither leases nor keys; the packages above add their parts, and it reaches them through [Above].
package core
