package runtime

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
)

// publish is the command by which the scripts announce a release.
const publish = "publish"

// What the release script did.
const (
	notOurs  = -1 // nothing: the lock was not the owner's
	freed    = 0  // it is free
	passedOn = 1  // another process has it
	kept     = 2  // the claim that is to follow has it
)

// released is the outcome of a release.
type released struct {
	what int64
	sent time.Time // before the request

	// Only if a claim is to follow:
	at    time.Time // by the server's clock
	token int64     // the first of its fencing tokens, if it has the key now and wanted some
}

// releaseOnce asks Redis to take the key from cl, and to give it to whose turn it is. again, if not
// nil, is the claim by which this process wants it once more, for ttl.
func (c *Client) releaseOnce(key string, cl claim, handed bool, again *claim, ttl time.Duration) (released, error) {
	done := released{what: notOurs, sent: time.Now()}
	place, turn := "", "0"
	if again != nil {
		place = again.place
	}
	if handed {
		turn = "1" // the one before us had it from us: now Redisson's waiters may race
	}
	reply, err := c.run(scripts.Release,
		[]string{key, waitingList(key), lockChannel(key), tokenCounter(key)},
		[]string{cl.place, messageUnlocked, publish, millis(claimLease), place, millis(ttl), turn}).AsIntSlice()
	if err != nil {
		return done, err
	}
	done.what = reply[0]
	if len(reply) == 4 {
		done.at, done.token = serverTime(reply[1:]), reply[3]
	}
	return done, nil
}

// release gives a claim back. It tries until Redis has answered, at most for Options.OpTimeout;
// after that it goes on in the background.
func (c *Client) release(key string, cl claim, handed bool, again *claim, ttl time.Duration) (released, error) {
	limit := time.Now().Add(c.opts.OpTimeout)
	var down outage
	for sent := false; ; {
		done, err := c.releaseOnce(key, cl, handed, again, ttl)
		if err == nil && cl.doubt {
			// A request of this claim whose reply was lost may still be on its way.
			c.spawn(func() { c.withdraw(key, cl) })
		}
		switch {
		case err == nil && (done.what != notOurs || sent):
			return done, nil // if not now, then by the try whose reply was lost
		case err == nil:
			return done, lost(watchdog.ErrRefused)
		case !passing(err):
			return done, refused(err)
		}
		sent = sent || unknown(err)
		pause := down.backoff(err)
		if time.Now().Add(pause).After(limit) {
			c.spawn(func() { c.withdraw(key, cl) })
			return done, err
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
	const least, most, limit = 25 * time.Millisecond, 5 * time.Second, time.Minute
	until := time.Now().Add(limit)
	answered := false
	for pause := least; ; pause = min(2*pause, most) {
		_, err := c.releaseOnce(key, cl, false, nil, 0)
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
