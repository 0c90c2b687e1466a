package engine

import "time"

// LookAgain is the longest time between two requests of a waiter, whatever events it gets: a fault of another process
// delays it no longer than that. The first waiter of this process asks more often while the server does not report
// changes, such as a flush, which deletes the wait queue.
const (
	LookAgain      = 30 * time.Second
	LookAgainBlind = 5 * time.Second
)

// PollUnheard is the interval of requests while the client does not hear the messages of Redis.
const PollUnheard = 500 * time.Millisecond
