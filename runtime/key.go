package lockrt

import (
	"fmt"
	"strings"
)

// maxKey is the longest key that is accepted, in bytes. Redis would take more; a key of this
// length is nearly always a document that ended up in the wrong argument.
const maxKey = 1024

// messageUnlocked is what Redisson publishes on the channel of a lock when it is released.
// Java parses every message as an integer, so nothing else may be sent.
const messageUnlocked = "0"

// messageLeft is published in its place when a lock is left to Redisson's waiters, who see no difference. Those
// of this library are told on channels of their own when to ask.
const messageLeft = messageUnlocked + messageUnlocked

// checkKey returns why key cannot be a lock's name on any server.
func checkKey(key string) *KeyError {
	open := strings.IndexByte(key, '{')
	switch {
	case key == "":
		return &KeyError{Reason: "is empty"}
	case len(key) > maxKey:
		return &KeyError{Reason: fmt.Sprintf("is %d bytes long; at most %d are accepted", len(key), maxKey)}
	case open >= 0 && strings.IndexByte(key[open:], '}') < 2:
		// The channel would be in another slot than the lock, so that unlocking it fails.
		return &KeyError{Reason: `has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in "{tag}"`}
	}
	return nil
}

// What stands beside a lock, and shares its slot.
const (
	channelPrefix = "redisson_lock__channel" // where Redisson announces that it was released
	waitingPrefix = "lockgen_waiting"        // the list in which processes of this library wait; Redisson knows nothing of it
	counterPrefix = "redisson_lock_token"    // counts its fencing tokens, as of Redisson's fenced lock
)

// countChannel returns the channel on which Redisson announces that a semaphore, of either kind, has permits.
func countChannel(key string) string { return prefixed("redisson_sc", key) }

// latchChannel returns the channel on which Redisson announces that a latch was opened or closed. It
// does not ask whether the key has a hash tag.
func latchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

// permitLeases returns the sorted set of the permits of a semaphore that are taken.
func permitLeases(key string) string { return suffixed(key, "timeout") }

// requestsOf returns the sorted set of what the last requests of a client did to a key that counts, by its
// kind: each turnstile says for itself which results are needed no more. Redisson knows nothing of it.
func requestsOf(key, uuid, kind string) string {
	return prefixed("lockgen_requests", key) + ":" + uuid + ":" + kind
}

// deletedMark returns the key that says that a latch was deleted lately. Redisson knows nothing of it.
func deletedMark(key string) string { return prefixed("lockgen_deleted", key) }

// What is published on the channel of a read-write lock when readers have gone, and when a writer has: to Redisson, which hears
// a 0 and a 1, all who wait may ask. Those of this library who listen, too, know that it is not for them.
const (
	messageRead    = messageLeft
	messageWritten = messageUnlocked + "1"
)

// writing is what the owner of a write lock ends in, in Redisson's read-write lock.
const writing = ":write"

// rwChannel returns the channel on which Redisson announces that a read-write lock was released.
func rwChannel(key string) string { return prefixed("redisson_rwlock", key) }

// readerHold returns the key that lives as long as the one hold of a reader, the owner.
func readerHold(key, owner string) string { return suffixed(key, owner+":rwlock_timeout:1") }

// rwNames are what the scripts of one read-write lock name, besides its holds.
type rwNames struct {
	channel, counter       string
	readers, writers, turn string // lines of those of this library who wait, and whose turn it is: see rw.lua
	prefix                 string // what the keys of holds begin with
}

func rwNamesOf(key string) rwNames {
	return rwNames{
		channel: rwChannel(key), counter: prefixed(counterPrefix, key),
		readers: prefixed("lockgen_reader", key), writers: prefixed("lockgen_writer", key), turn: prefixed("lockgen_turn", key),
		prefix: suffixed(key, ""),
	}
}

// fairNames are what the scripts of one fair lock name. channel is what the channels begin with on which Redisson
// tells those who wait; Redisson knows nothing of the notes.
type fairNames struct{ queue, times, notes, channel, counter string }

func fairNamesOf(key string) fairNames {
	return fairNames{
		queue: prefixed("redisson_lock_queue", key), times: prefixed("redisson_lock_timeout", key),
		notes: prefixed("lockgen_fair", key), channel: prefixed(channelPrefix, key), counter: prefixed(counterPrefix, key),
	}
}

// keys are those of all scripts of the lock named key.
func (k fairNames) keys(key string) []string {
	return []string{key, k.queue, k.times, k.notes, k.channel, k.counter}
}

// processChannel returns the channel on which a client is told what concerns its owners. The
// scripts build the same name.
func processChannel(uuid string) string { return "lockgen_process:" + uuid }

// tagChannel returns the channel on which a client is told what concerns its waiting for keys of a hash tag, in a
// cluster with sharded channels. The scripts build the same name.
func tagChannel(uuid, tag string) string { return processChannel(uuid) + ":{" + tag + "}" }

// hashTag returns the part of a key that decides which slot of a cluster it is in.
func hashTag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// names are what the scripts of one lock name, in one piece of memory.
type names struct{ lock, waiting, channel, counter string }

func namesOf(key string) names {
	open, end := ":{", "}"
	if strings.Contains(key, "{") {
		open, end = ":", ""
	}
	prefixes := [...]string{waitingPrefix, channelPrefix, counterPrefix}
	size := 0
	for _, p := range prefixes {
		size += len(p) + len(open) + len(key) + len(end)
	}
	var all strings.Builder
	all.Grow(size)
	var ends [len(prefixes)]int
	for i, p := range prefixes {
		all.WriteString(p)
		all.WriteString(open)
		all.WriteString(key)
		all.WriteString(end)
		ends[i] = all.Len()
	}
	text := all.String()
	return names{key, text[:ends[0]], text[ends[0]:ends[1]], text[ends[1]:]}
}

// prefixed names a companion of key that shares its slot: Redisson's prefixName.
func prefixed(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

// suffixed names a companion of key that shares its slot: Redisson's suffixName.
func suffixed(key, suffix string) string {
	if strings.Contains(key, "{") {
		return key + ":" + suffix
	}
	return "{" + key + "}:" + suffix
}
