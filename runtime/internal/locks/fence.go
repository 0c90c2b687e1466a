package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// Fencing tokens are counted in Redis, under the key that Redisson's fenced lock counts in. The next one is one more
// than the last, or the server's time in microseconds if that is larger: a hybrid logical clock (Kulkarni et al.,
// 2014). So they rise also when the counter has expired, when Redis was restarted empty, and when a replica took over
// that had missed the last writes, as long as its clock is not behind by more than that took. Kleppmann's "How to do
// distributed locking" (2016) describes their use by a resource.

// mostTokens bounds a block. Drawing many more than needed would push the counter ahead of the
// clock.
const mostTokens = 64

// wants returns how many tokens to draw with terms t: for all waiters of this process, if the key
// can be passed on to them.
func (r *resource) wants(t engine.Terms) int {
	switch {
	case !t.Fenced:
		return 0
	case !t.Renew:
		return 1
	case r.Queue.First != nil && r.Queue.First.Linger > 0:
		return mostTokens // one for each call that has the lingering key
	}
	return max(1, r.Queue.LengthTo(mostTokens))
}

// tokenKey is the context key of the fencing token of the innermost lease that has one.
type tokenKey struct{}

func TokenOf(ctx context.Context, key string) (token int64, ok bool) {
	ctx = present(ctx)
	for {
		l, _ := ctx.Value(leaseKey{}).(*Lease)
		if l == nil {
			return 0, false
		}
		if token := l.tokenOf(key); token != 0 {
			return token, true
		}
		ctx = l.parent
	}
}

// tokenOf returns the token of l, or of its part that is a lease of key, or 0.
func (l *Lease) tokenOf(key string) int64 {
	if l.key == key && l.token != 0 {
		return l.token
	}
	if l.rare().composite != nil {
		for _, part := range l.rare().composite.all() {
			if token := part.tokenOf(key); token != 0 {
				return token
			}
		}
	}
	return 0
}

func TokenFrom(ctx context.Context) (token int64, ok bool) {
	token, ok = present(ctx).Value(tokenKey{}).(int64)
	return token, ok
}
