// Package engine has the decisions that all kinds of locks share: the states of a ticket and of a grant, the verdict of a ticket
// on an answer or a hand-over, the time from which a grant is trusted, the terms on which it can go to the next call, and the
// events for a waiting call. It has the waiter, its queue and its timers, and the loop that withdraws the tickets that no call
// needs any more. Until when a grant is trusted is decided in package watchdog. The engine knows neither Redis nor its client: the package above sends requests, and hands in their answers with what an
// error leaves open.
//
// docs/architecture.md draws the states of tickets, grants and withdrawals.
package engine
