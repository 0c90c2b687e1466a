// Package engine is what waits and decides for all kinds of locks: how far a ticket and a grant have come, what a ticket makes of
// an answer or of a hand-over, from when on a grant is trusted, on which terms it can go to the next call, and what a waiting call
// learns of it. It has the waiter, its queue and its timers. It knows neither Redis nor its client: the package above sends requests, and hands in their answers with what an
// error leaves open.
//
// docs/architecture.md draws the states of tickets and grants.
package engine
