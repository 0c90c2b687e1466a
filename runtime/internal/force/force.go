// Package force lets package locktest take from its holder what a context is under, whatever kind of lock that is.
package force

import "context"

// Take takes the innermost lease that under is under from its holder, as somebody does who forces the lock open, and reports
// whether the server had it; key names the lock, and ended is closed when the lease's own context has ended. It fails if under is
// under no lease. Package locks sets it.
var Take func(ctx, under context.Context) (key string, ended <-chan struct{}, taken bool, err error)
