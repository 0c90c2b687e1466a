package leases

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/core"
)

// Fencing tokens are counted in Redis, under the key that Redisson's fenced lock counts in. The next one is one more
// than the last, or the server's time in microseconds if that is larger: a hybrid logical clock (Kulkarni et al.,
// 2014). So they rise also when the counter has expired, when Redis was restarted empty, and when a replica took over
// that had missed the last writes, as long as its clock is not behind by more than that took. Kleppmann's "How to do
// distributed locking" (2016) describes their use by a resource.

// tokenKey is the context key of the fencing token of the innermost lease that has one.
type tokenKey struct{}

func TokenOf(ctx context.Context, key string) (token int64, ok bool) {
	ctx = core.Present(ctx)
	for {
		l, _ := ctx.Value(leaseKey{}).(*Lease)
		if l == nil {
			return 0, false
		}
		if token := l.tokenOf(key); token != 0 {
			return token, true
		}
		ctx = l.core.Parent
	}
}

// tokenOf returns the token of l, or of its part that is a lease of key, or 0.
func (l *Lease) tokenOf(key string) int64 {
	if l.core.key == key && l.core.Token != 0 {
		return l.core.Token
	}
	if l.core.Rare().Parts != nil {
		for _, part := range l.core.Rare().Parts.All() {
			if token := part.tokenOf(key); token != 0 {
				return token
			}
		}
	}
	return 0
}

func TokenFrom(ctx context.Context) (token int64, ok bool) {
	token, ok = core.Present(ctx).Value(tokenKey{}).(int64)
	return token, ok
}
