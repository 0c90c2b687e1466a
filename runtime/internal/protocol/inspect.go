package protocol

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// Inspect returns the command that asks for the holder and the waiters of a mutex. [ReadInspection] reads its reply.
func (p *Process) Inspect(key string) Command {
	n := mutexNamesOf(key)
	return p.inspect(key, n.waiting, n.channel)
}

func (p *Process) inspect(key, waiting, channel string) Command {
	return Command{scripts.Inspect, []string{key, waiting, channel}, []string{p.publish}}
}

// An Inspection is what Redis says of a lock at one moment.
type Inspection struct {
	TTL       time.Duration // 0 of a free lock, negative of one that does not expire
	Waiting   int           // entries of the wait queue
	Listening int           // subscriptions to Redisson's channel of the lock
	Fields    []Field       // the owners; none of a free lock
}

// A Field is one owner of a lock, and how many times it entered as Redis has it.
type Field struct{ Owner, Value string }

// Count returns how many times the owner entered.
func (f Field) Count() (int, error) {
	n, err := strconv.Atoi(f.Value)
	if err != nil {
		return 0, fmt.Errorf("%s: the hold count %q is no number", scripts.Inspect.Name, f.Value)
	}
	return n, nil
}

// ReadInspection reads the reply to an Inspect command: an array of integers and strings.
func ReadInspection(reply any) (in Inspection, err error) {
	words, _ := reply.([]any)
	if len(words) < 3 || len(words)%2 == 0 {
		return Inspection{}, fmt.Errorf("%s: a reply of %d values", scripts.Inspect.Name, len(words))
	}
	var numbers [3]int64
	for i := range numbers {
		n, ok := words[i].(int64)
		if !ok {
			return Inspection{}, fmt.Errorf("%s: value %d of the reply is a %T", scripts.Inspect.Name, i+1, words[i])
		}
		numbers[i] = n
	}
	in.Waiting, in.Listening = int(numbers[1]), int(numbers[2])
	for words = words[3:]; len(words) > 0; words = words[2:] {
		owner, isText := words[0].(string)
		value, isValue := words[1].(string)
		if !isText || !isValue {
			return Inspection{}, fmt.Errorf("%s: an owner and its count are a %T and a %T", scripts.Inspect.Name, words[0], words[1])
		}
		in.Fields = append(in.Fields, Field{owner, value})
	}
	if len(in.Fields) > 0 {
		in.TTL = max(Milliseconds(numbers[0]), -time.Millisecond)
	}
	return in, nil
}
