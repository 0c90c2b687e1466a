package protocol

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// MaxKey is the length of the longest key that is accepted, in bytes. Redis takes longer ones. A key of more is nearly
// always a document in the wrong argument.
const MaxKey = 1024

// CheckKey returns why a key cannot be the name of a lock on any server, or the empty string.
func CheckKey(key string) (reason string) {
	open := strings.IndexByte(key, '{')
	switch {
	case key == "":
		return "is empty"
	case len(key) > MaxKey:
		return fmt.Sprintf("is %d bytes long; at most %d are accepted", len(key), MaxKey)
	case open >= 0 && strings.IndexByte(key[open:], '}') < 2:
		// The channel would be in another slot than the lock, and unlocking would fail.
		return `has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in "{tag}"`
	}
	return ""
}

// CheckClusterKey returns why a key that [CheckKey] accepts cannot be the name of a lock in a cluster, or the empty string.
func CheckClusterKey(key string) (reason string) {
	if Slot(prefixed("", key)) != Slot(key) {
		return `has a "}" that ends no hash tag; in a cluster what stands beside it would be in another slot: leave it out, or begin with a tag, as in "{tag}"`
	}
	return ""
}

// CheckClusterLatch is CheckClusterKey for the key of a latch.
func CheckClusterLatch(key string) (reason string) {
	if Slot(LatchChannel(key)) != Slot(key) {
		return `has braces; in a cluster Redisson's channel of a latch would be in another slot: leave them out`
	}
	return ""
}

// The keys and channels of a mutex, beside the key itself. All of them share its slot.
const (
	channelPrefix = "redisson_lock__channel" // the channel on which Redisson announces a release
	waitingPrefix = "lockgen_waiting"        // the wait queue of this library
	counterPrefix = "redisson_lock_token"    // the counter of fencing tokens of Redisson's fenced lock
)

// LockChannel returns the channel on which Redisson announces that a lock was released.
func LockChannel(key string) string { return prefixed(channelPrefix, key) }

// CountChannel returns the channel on which Redisson announces that a semaphore, of either kind, has permits.
func CountChannel(key string) string { return prefixed("redisson_sc", key) }

// LatchChannel returns the channel on which Redisson announces that a latch was opened or closed. Unlike the others it
// ignores a hash tag in the key.
func LatchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

// PermitLeases returns the sorted set of the permits that are taken.
func PermitLeases(key string) string { return suffixed(key, "timeout") }

// requests returns the sorted set of the results of a client's last requests to a key that counts. The result of one
// kind of key says nothing about another kind of the same name. Redisson does not know this key.
func (p *Process) requests(key, kind string) string {
	return prefixed("lockgen_requests", key) + ":" + p.UUID + ":" + kind
}

// deletedMark returns the key that exists while a latch was deleted lately. Redisson does not know this key.
func deletedMark(key string) string { return prefixed("lockgen_deleted", key) }

// readerHold returns the key that lives as long as the hold of a reader.
func readerHold(key, reader string) string { return suffixed(key, reader+":rwlock_timeout:1") }

// ProcessChannel returns the channel on which a client is sent what concerns its owners. The scripts build the same name.
func ProcessChannel(uuid string) string { return "lockgen_process:" + uuid }

// ProcessKey returns the hash in which a client says who it is. No script of a lock reads it.
func ProcessKey(uuid string) string { return "lockgen_process:" + uuid }

// TagChannel returns the channel on which a client is sent what concerns its waiting for keys of a hash tag, in a cluster
// with sharded channels. The scripts build the same name.
func TagChannel(uuid, tag string) string { return ProcessChannel(uuid) + ":{" + tag + "}" }

// HashTag returns the part of a key that decides its slot in a cluster.
func HashTag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// mutexNames are the names that the scripts of one mutex need.
type mutexNames struct{ waiting, channel, counter string }

// mutexNamesOf returns all names of a mutex as parts of one string: that is one allocation for each request.
func mutexNamesOf(key string) mutexNames {
	open, end := tagOf(key)
	all := waitingPrefix + open + key + end + channelPrefix + open + key + end + counterPrefix + open + key + end
	beside := len(open) + len(key) + len(end)
	waiting := len(waitingPrefix) + beside
	channel := waiting + len(channelPrefix) + beside
	return mutexNames{all[:waiting], all[waiting:channel], all[channel:]}
}

// waitingIn returns the name of the wait queue, and another text, which it writes to x.
func waitingIn(x *Texts, key string, more []byte) (waiting, text string) {
	open, end := tagOf(key)
	length := len(waitingPrefix) + len(open) + len(key) + len(end)
	b := x.room(length + len(more))
	start := b.Len()
	b.WriteString(waitingPrefix)
	b.WriteString(open)
	b.WriteString(key)
	b.WriteString(end)
	b.Write(more)
	both := b.String()[start:]
	return both[:length], both[length:]
}

// tagOf returns what stands before and behind a key in a name beside it that shares its slot.
func tagOf(key string) (open, end string) {
	if strings.Contains(key, "{") {
		return ":", ""
	}
	return ":{", "}"
}

// prefixed returns a name beside a key that shares its slot: Redisson's prefixName.
func prefixed(prefix, key string) string {
	open, end := tagOf(key)
	return prefix + open + key + end
}

// suffixed returns a name beside a key that shares its slot: Redisson's suffixName.
func suffixed(key, suffix string) string {
	if strings.Contains(key, "{") {
		return key + ":" + suffix
	}
	return "{" + key + "}:" + suffix
}

// Listens says on which channels a client is sent messages. Its UUID tells the scripts, see handover.lua.
type Listens byte

// Each value is the variant of a UUID.
const (
	ListensPlain   Listens = 0x80 // on one channel of one server
	ListensSharded Listens = 0x90 // on a channel in the slot of each lock that it waits for, and on one for the rest
	ListensCluster Listens = 0xa0 // on one channel of a cluster whose servers do not know who listens
)

// NewUUID returns a random UUID in the form of Java's UUID.toString. Its version is 8 where Java's is 4: so the scripts tell
// a client that stands in the wait queue from one of Redisson that listens and races.
func NewUUID(listens Listens) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x0f | byte(listens)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ClientOf returns the UUID of the client that an owner belongs to, and whether that is a client of this library.
func ClientOf(owner string) (uuid string, library bool) {
	uuid, _, _ = strings.Cut(owner, ":")
	return uuid, len(uuid) == 36 && uuid[14] == '8'
}
