package protocol

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// writing is the end of the owner of a write lock in Redisson's read-write lock.
const writing = ":write"

// WriterOf returns the owner that writes, from a field of a read-write lock, and whether it is one of a writer.
func WriterOf(field string) (owner string, writes bool) { return strings.CutSuffix(field, writing) }

// An RW is what one client says of one read-write lock.
type RW struct {
	p                              *Process
	key                            string
	channel, counter               string
	readers, writers, turn, prefix string // the wait queues of both sides, whose turn it is, and the start of the keys of holds
}

// RW returns what p says of the read-write lock of a key.
func (p *Process) RW(key string) RW {
	return RW{
		p: p, key: key,
		channel: prefixed("redisson_rwlock", key), counter: prefixed(counterPrefix, key),
		readers: prefixed("lockgen_reader", key), writers: prefixed("lockgen_writer", key), turn: prefixed("lockgen_turn", key),
		prefix: suffixed(key, ""),
	}
}

// Channel returns the channel on which Redisson announces a release.
func (l *RW) Channel() string { return l.channel }

// WaiterChannel returns the channel to which every waiter of this library subscribes, so that the scripts can tell how many
// of the subscriptions to the other channel are Redisson's.
func (l *RW) WaiterChannel() string { return l.writers }

// Field returns the field of an owner in the hash of the lock.
func (l *RW) Field(number uint64, write bool) string {
	if write {
		return l.p.Owner(number) + writing
	}
	return l.p.Owner(number)
}

// A Stay is how long a request stands in the wait queue.
type Stay struct {
	For  time.Duration // unless it is sent again; 0 for a request that does not wait
	Deaf bool          // the client receives no messages
}

func (s Stay) args() (ms, deaf string) {
	if s.Deaf {
		deaf = "+"
	}
	return millis(s.For), deaf
}

// Read returns the request to read. under is a field of the same holder that lets it read past everybody, or empty.
// [ReadRWRead] reads its reply.
func (l *RW) Read(reader, under string, stay Stay, lease time.Duration) Command {
	ms, deaf := stay.args()
	return Command{scripts.RWRead, []string{l.key, readerHold(l.key, reader), l.readers, l.writers, l.turn},
		[]string{millis(lease), reader, under, ms, deaf}}
}

// Write returns the request to write, with as many fencing tokens as tokens says. [ReadRWWrite] reads its reply.
func (l *RW) Write(writer string, stay Stay, tokens int, lease time.Duration) Command {
	ms, deaf := stay.args()
	return Command{scripts.RWWrite, []string{l.key, l.readers, l.writers, l.turn, l.counter},
		[]string{millis(lease), writer, ms, deaf, strconv.Itoa(tokens), l.p.keepTokens}}
}

// ReadRWRead reads the reply to [RW.Read]: [Granted], or after how many milliseconds to ask again, -1 if nobody knows.
func ReadRWRead(reply int64) Verdict { return Verdict{Wait: reply} }

// ReadRWWrite reads the reply to [RW.Write], as [ReadRWRead] does, with the fencing token.
func ReadRWWrite(reply []int64) (Verdict, error) {
	if err := short(scripts.RWWrite, reply, 2); err != nil {
		return Verdict{}, err
	}
	return Verdict{Wait: reply[0], Token: reply[1]}, nil
}

// Release returns the release of what a field has, or the end of its place in the wait queue. It replies [NotOurs] if the
// field has no lock.
func (l *RW) Release(field string) Command {
	if _, writes := WriterOf(field); writes {
		return Command{scripts.RWWriteRelease, []string{l.key, l.channel, l.readers, l.writers, l.turn},
			[]string{field, writeUnlocked, l.p.publish, l.prefix}}
	}
	return Command{scripts.RWReadRelease, []string{l.key, readerHold(l.key, field), l.channel, l.readers, l.writers, l.turn},
		[]string{field, leftToJava, l.p.publish, l.prefix}}
}

// ForceUnlock returns the command that takes the lock from its writer, or from its readers, if it has those that are named and no
// others; from any if none are. It replies 1 if it did.
func (l *RW) ForceUnlock(write bool, owners ...string) Command {
	mode, message := "read", leftToJava
	if write {
		mode, message = "write", writeUnlocked
	}
	return Command{scripts.RWForceUnlock, []string{l.key, l.channel, l.readers, l.writers, l.turn},
		append([]string{mode, message, l.p.publish, l.prefix}, owners...)}
}

// Yield returns the command by which a process that reads asks whether somebody waits for it. If Redisson's waiters do, no
// new reader enters for that long. It replies 1 if somebody waits.
func (l *RW) Yield(keepOut time.Duration) Command {
	return Command{scripts.RWYield, []string{l.key, l.writers, l.channel, l.turn}, []string{millis(keepOut), l.p.publish}}
}

// Inspect returns the command that asks who has the lock. [ReadInspection] reads its reply, of which Waiting means nothing.
func (l *RW) Inspect() Command { return l.p.inspect(l.key, prefixed(waitingPrefix, l.key), l.channel) }
