package runtime

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
)

// publish is the command by which the scripts announce a release.
const publish = "publish"

// releaseOnce asks Redis to take the key from owner. ours is false when it was not owner's.
func (c *Client) releaseOnce(key, owner string) (ours bool, err error) {
	n, err := c.run(scripts.Release,
		[]string{key, lockChannel(key)},
		[]string{owner, messageUnlocked, publish}).AsInt64()
	return n >= 0, err
}

// release gives a granted claim back. It tries until Redis has answered, at most for
// Options.OpTimeout; after that it goes on in the background.
func (c *Client) release(key string, cl claim) error {
	limit := time.Now().Add(c.opts.OpTimeout)
	var down outage
	for sent := false; ; {
		ours, err := c.releaseOnce(key, cl.owner)
		if err == nil && cl.doubt {
			// A request of this claim whose reply was lost may still be on its way.
			c.spawn(func() { c.withdraw(key, cl) })
		}
		switch {
		case err == nil && (ours || sent):
			return nil // if not now, then by the try whose reply was lost
		case err == nil:
			return lost(watchdog.ErrRefused)
		case !passing(err):
			return refused(err)
		}
		sent = sent || unknown(err)
		pause := down.backoff(err)
		if time.Now().Add(pause).After(limit) {
			c.spawn(func() { c.withdraw(key, cl) })
			return err
		}
		<-time.After(pause)
	}
}

// withdraw makes sure that Redis does not keep the key for a claim that nobody wants any more: a
// request for it may have been answered without our knowing, or may reach the server only after
// this. Nobody else has its owner, so asking too often harms nobody.
//
// It watches for as long as a lease of the claim lasts, counted from the first answer, and gives up
// after a minute without one, or when the client is closed.
func (c *Client) withdraw(key string, cl claim) {
	const least, most, patience = 25 * time.Millisecond, 5 * time.Second, time.Minute
	until := time.Now().Add(patience)
	answered := false
	for pause := least; ; pause = min(2*pause, most) {
		_, err := c.releaseOnce(key, cl.owner)
		if err == nil && !answered {
			answered, until = true, time.Now().Add(cl.ttl)
		}
		switch {
		case err != nil && !passing(err):
			c.opts.Logger.Warn("lockgen: a claim could not be withdrawn; its key expires", "key", key, "error", err)
			return
		case time.Now().After(until):
			return
		}
		if !c.pause(min(pause, time.Until(until)+time.Millisecond)) {
			return
		}
	}
}

// pause waits for d and reports false if the client was closed meanwhile.
func (c *Client) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stopped:
		return false
	}
}
