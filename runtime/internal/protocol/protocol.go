// Package protocol is what the runtime says to Redis and what it reads in return: the names of keys and channels, the
// arguments of scripts, their replies, and the messages that the scripts publish. It is the only package that builds a
// Redis key.
//
// Every function is pure. It sends nothing, waits for nothing and asks no clock. Each kind of lock has a file: mutex.go,
// rw.go, fair.go, semaphore.go, permit.go and latch.go. The Lua that runs on the server is in the package scripts, and
// the header of each script describes its KEYS, its ARGV and its reply.
//
// A request that many callers send at the same time is part of a [Batch]: one script handles all of them. Such a request
// appends its keys and arguments to those before it. Any other request is a [Command].
package protocol

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// A Command is one call of a script.
type Command struct {
	Script     *scripts.Script
	Keys, Args []string
}

// A Batch is a script that handles many requests in one call, each independently of the others.
type Batch struct {
	Script  *scripts.Script
	Common  []string // the arguments before those of the requests
	Shares  bool     // of the two arguments of each request, the second one stands once behind all if it is the same for all, and if all keys differ
	Channel bool     // the channel of the first lock stands behind all keys
}

// End completes x, once n requests are in it.
func (b *Batch) End(x *Texts, n int) {
	x.Keys = append(x.Keys, x.behind...)
	if b.Channel {
		x.Keys = append(x.Keys, LockChannel(x.Keys[0]))
	}
	if b.Shares && n > 1 {
		x.share(n, len(b.Common))
	}
}

// HandOverLease is the lease of a process that is handed a lock by another one: long enough to receive the message and
// to renew, short enough that a process that has died delays nobody for long.
const HandOverLease = 2 * time.Second

// Publish is the command by which scripts announce what Redisson announces too.
type Publish string

// The values are those that say.lua reads.
const (
	PublishPlain   Publish = "publish"  // on channels of which every server of a cluster sends the messages
	PublishSharded Publish = "spublish" // on channels in the slot of the key
	PublishBoth    Publish = "both"
)

// A Process is what all requests of one client have in common.
type Process struct {
	UUID     string        // names the client in owners and channels, see NewUUID
	Publish  Publish       // of a single server always PublishPlain
	TokenTTL time.Duration // for how long a counter of fencing tokens is kept; 0 for ever
	Watchdog time.Duration // the length of most leases

	publish, keepTokens, watchdog string // the same as the scripts read them
}

// NewProcess returns a Process with the arguments of its fields.
func NewProcess(uuid string, publish Publish, tokenTTL, watchdog time.Duration) Process {
	return Process{
		UUID: uuid, Publish: publish, TokenTTL: tokenTTL, Watchdog: watchdog,
		publish: string(publish), keepTokens: millis(tokenTTL), watchdog: millis(watchdog),
	}
}

// Owner returns the owner of a number, in the form in which Redisson names a thread: <uuid>:<number>.
func (p *Process) Owner(number uint64) string {
	var b [mostOwner]byte
	return string(p.appendOwner(b[:0], number))
}

// mostOwner is how long an owner is at most, or a little more.
const mostOwner = 64

func (p *Process) appendOwner(b []byte, number uint64) []byte {
	return strconv.AppendUint(append(append(b, p.UUID...), ':'), number, 10)
}

// millis returns a duration as the scripts read it. The length of most leases is converted once.
func (p *Process) millis(d time.Duration) string {
	if d == p.Watchdog {
		return p.watchdog
	}
	return millis(d)
}

// millis returns a duration in milliseconds, as Redis reads it.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Milliseconds returns the duration of a number of milliseconds that Redis has replied. A Java program can set a longer one than a Duration can say:
// that is the longest one then, but for an hour, to which a caller can add a little.
func Milliseconds(n int64) time.Duration {
	const most = int64((math.MaxInt64 - time.Hour) / time.Millisecond)
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}

// clock returns the time in milliseconds since 1970, as Redisson's fair lock reads it.
func clock(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// serverTime returns the time of the server from the two numbers of TIME.
func serverTime(seconds, micros int64) time.Time { return time.Unix(seconds, micros*1000) }

// flag returns the argument 1 for true and 0 for false.
func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// Granted is the first number of the reply of every script that locks if it has granted the lock.
const Granted = -2

// An Answer is the reply to one request of a batch. If all requests have the same answer and only its first number is
// not 0, the script may reply with that number alone.
type Answer [4]int64

// short returns the error for a reply of fewer numbers than the script promises.
func short(script *scripts.Script, reply []int64, want int) error {
	if len(reply) < want {
		return fmt.Errorf("%s: %d values in a reply of %d", script.Name, len(reply), want)
	}
	return nil
}
