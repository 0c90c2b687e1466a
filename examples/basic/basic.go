package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// A basic is the lock that articles begin with: SET NX PX, and DEL to give it back. It is here to be compared, not to be
// used.
type basic struct {
	rc    rueidis.Client
	key   string
	value string // says whose it is
	ttl   time.Duration
}

var errHeld = errors.New("held by somebody")

// newBasic returns a lock of one holder.
func newBasic(rc rueidis.Client, key string, ttl time.Duration) *basic {
	return &basic{rc: rc, key: key, value: rand.Text(), ttl: ttl}
}

// lock tries once: a key knows nothing of waiting.
func (b *basic) lock(ctx context.Context) error {
	err := b.rc.Do(ctx, b.rc.B().Set().Key(b.key).Value(b.value).Nx().Px(b.ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errHeld
	}
	return err
}

// unlockBlindly is how the first version of the article gives back: whatever is there is deleted.
func (b *basic) unlockBlindly(ctx context.Context) error {
	return b.rc.Do(ctx, b.rc.B().Del().Key(b.key).Build()).Error()
}

var compareAndDelete = rueidis.NewLuaScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`)

// unlock is how the second one does: only what is its own. It reports whether it was.
func (b *basic) unlock(ctx context.Context) (bool, error) {
	return compareAndDelete.Exec(ctx, b.rc, []string{b.key}, []string{b.value}).AsBool()
}
