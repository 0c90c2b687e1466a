package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// A basic is the lock of many articles: SET NX PX to acquire, DEL to release. It is here for comparison, not for use.
type basic struct {
	rc    rueidis.Client
	key   string
	value string // identifies the holder
	ttl   time.Duration
}

var errHeld = errors.New("held by somebody")

// newBasic returns a lock for one holder.
func newBasic(rc rueidis.Client, key string, ttl time.Duration) *basic {
	return &basic{rc: rc, key: key, value: rand.Text(), ttl: ttl}
}

// lock tries once: the lock has no wait queue.
func (b *basic) lock(ctx context.Context) error {
	err := b.rc.Do(ctx, b.rc.B().Set().Key(b.key).Value(b.value).Nx().Px(b.ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errHeld
	}
	return err
}

// unlockBlindly releases as the first version in those articles does: it deletes the key, even that
// of another holder.
func (b *basic) unlockBlindly(ctx context.Context) error {
	return b.rc.Do(ctx, b.rc.B().Del().Key(b.key).Build()).Error()
}

var compareAndDelete = rueidis.NewLuaScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`)

// unlock releases as their second version does: it deletes the key only if it has the holder's own
// value. It reports whether it did.
func (b *basic) unlock(ctx context.Context) (bool, error) {
	return compareAndDelete.Exec(ctx, b.rc, []string{b.key}, []string{b.value}).AsBool()
}
