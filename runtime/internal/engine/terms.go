package engine

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// Terms are the conditions of a grant between a holder and Redis.
type Terms struct {
	TTL     time.Duration
	Renew   bool
	Fenced  bool
	Polling bool // no subscription is made for it
}

// MetBy reports whether a hand-over for ttl, no earlier than at from, with this fencing token or 0, is what a call on these terms
// demands. If not, the call asks.
func (t Terms) MetBy(from time.Time, ttl time.Duration, token int64) bool {
	return t.Renew && (!t.Fenced || token != 0) && time.Until(from.Add(ttl-watchdog.Margin(ttl))) > 0
}

// PassesTo reports whether a grant on these terms, with these fencing tokens left, can go to a call that wants others: only on the
// same terms. A lease of fixed length goes to no other call, since the next holder is promised all of it.
func (t Terms) PassesTo(wanted Terms, left Tokens) bool {
	return wanted == t && t.Renew && (!wanted.Fenced || left.Left > 0)
}

// Tokens are a block of fencing tokens that a process has drawn at once, so that each hand-over
// between its goroutines gets a larger one without a request to Redis.
type Tokens struct {
	Next int64
	Left int
}

// NewTokens returns n tokens from first on, or none if first is 0.
func NewTokens(first int64, n int) Tokens {
	if first == 0 {
		return Tokens{}
	}
	return Tokens{first, n}
}

// Take returns the next token.
func (t *Tokens) Take() int64 {
	t.Next++
	t.Left--
	return t.Next - 1
}
