package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// leaderRecord returns the key of the record of the leader.
func leaderRecord(key string) string { return prefixed("lockgen_leader", key) }

// LeaderChannel returns the channel on which it is announced that somebody leads, or does no longer.
func LeaderChannel(key string) string { return leaderRecord(key) }

// A Term is what the leader says of itself.
type Term struct {
	Owner  string // of the mutex
	Token  int64
	Doubts int // number of requests of the term before this one whose outcome is unknown: they change nothing after this one
	Value  string
}

// mostDoubts is how many doubts a record counts, each with a byte: a zero before its token, which every client reads.
const mostDoubts = 1000

// Lead returns the command that says that the owner of a mutex leads, for as long as it has that, and keeps the record. It replies
// 1, or 0 if it is not for this owner to say.
func (p *Process) Lead(key string, t Term, keep time.Duration) Command {
	return p.elect(key, t, max(keep, time.Millisecond))
}

// Resign returns the command that says that an owner leads no longer. It replies 1, or 0 if that was said before.
func (p *Process) Resign(key string, t Term) Command { return p.elect(key, t, 0) }

func (p *Process) elect(key string, t Term, keep time.Duration) Command {
	return Command{scripts.Elect, []string{key, leaderRecord(key)},
		[]string{t.Owner, strings.Repeat("0", min(t.Doubts, mostDoubts)) + strconv.FormatInt(t.Token, 10), p.publish, millis(keep), t.Value}}
}

// Leader returns the command that asks who leads. [ReadLeading] reads its reply.
func (p *Process) Leader(key string) Command {
	return Command{Script: scripts.Leader, Keys: []string{key, leaderRecord(key)}}
}

// ReadLeading reads the reply to [Process.Leader]: for how long the lock is still held, not more than 0 if it does not expire, and
// by whom.
func ReadLeading(reply any) (ttl time.Duration, t Term, err error) {
	words, _ := reply.([]any)
	if len(words) != 2 {
		return 0, t, fmt.Errorf("leader: a reply of %d values", len(words))
	}
	ms, isTime := words[0].(int64)
	record, isText := words[1].(string)
	if !isTime || !isText {
		return 0, t, fmt.Errorf("leader: the values of the reply are a %T and a %T", words[0], words[1])
	}
	t, err = ReadLeader(record)
	return Milliseconds(ms), t, err
}

// ReadLeader reads the record in that reply, but for its doubts. Of none it returns the zero Term.
func ReadLeader(record string) (t Term, err error) {
	if record == "" {
		return t, nil
	}
	words := strings.SplitN(record, " ", 3)
	if len(words) < 3 {
		return t, errors.New("leader: the record of who leads has less than three parts")
	}
	t.Owner, t.Value = words[1], words[2]
	t.Token, err = strconv.ParseInt(words[0], 10, 64)
	return t, err
}
