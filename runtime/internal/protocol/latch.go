package protocol

import (
	"strconv"

	"github.com/lockgen/lockgen/scripts"
)

// A Latch is what one client says of one count-down latch.
type Latch struct {
	p                               *Process
	key, channel, requests, deleted string
}

// Latch returns what p says of the latch of a key.
func (p *Process) Latch(key string) Latch {
	return Latch{p: p, key: key, channel: LatchChannel(key), requests: p.requests(key, countsLatch), deleted: deletedMark(key)}
}

// Start returns the request that starts the latch at n. It replies 1 if it did, 0 if the latch is running, or [Outdated].
func (l *Latch) Start(r Request, n int) Command {
	return Command{scripts.LatchSet, []string{l.key, l.channel, l.requests, l.deleted}, r.args(strconv.Itoa(n), l.p.publish, latchClosed)}
}

// CountDown returns the request that takes one off the count. It replies what is left, or [Outdated].
func (l *Latch) CountDown(r Request) Command {
	return Command{scripts.LatchDown, []string{l.key, l.channel, l.requests}, r.args(latchOpen, l.p.publish)}
}

// Count returns the command that asks what is left. It replies 0 if there is no latch, and -1 if it was deleted lately.
func (l *Latch) Count() Command {
	return Command{Script: scripts.LatchCount, Keys: []string{l.key, l.deleted}}
}

// Delete returns the request that deletes the latch. It replies 1 if there was one, or [Outdated].
func (l *Latch) Delete(r Request) Command {
	return Command{scripts.LatchDelete, []string{l.key, l.channel, l.requests, l.deleted}, r.args(latchClosed, l.p.publish)}
}
