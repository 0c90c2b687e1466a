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

// NextLook returns how long a waiter waits for messages before it asks again: no longer than longest, nor than the key stays locked
// unless its lease is renewed, which is ttl, negative if that is unknown. heard reports whether messages arrive.
func NextLook(longest, ttl time.Duration, heard bool) time.Duration {
	if ttl >= 0 {
		longest = min(longest, ttl+time.Millisecond) // Redis counts in whole milliseconds
	}
	if !heard {
		longest = min(longest, PollUnheard)
	}
	return longest
}
