package transport

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Reply is the reply to a command, or the error instead of it.
type Reply struct{ result rueidis.RedisResult }

// Err returns the error of a request that has no reply, or whose reply is an error.
func (r Reply) Err() error { return r.result.Error() }

// Int returns a reply that is an integer.
func (r Reply) Int() (int64, error) { return r.result.AsInt64() }

// Ints returns a reply that is an array of integers.
func (r Reply) Ints() ([]int64, error) { return r.result.AsIntSlice() }

// Bool returns a reply that is 0 or 1.
func (r Reply) Bool() (bool, error) { return r.result.AsBool() }

// Any returns a reply of integers, strings and arrays of them.
func (r Reply) Any() (any, error) { return r.result.ToAny() }

// Answers are those of one script to several requests.
type answers struct {
	all []rueidis.RedisMessage // nil if one number is the answer to each
	one int64
}

// answersOf reads the reply to n requests.
func answersOf(reply Reply, n int) (a answers, err error) {
	message, err := reply.result.ToMessage()
	if err != nil {
		return a, err
	}
	if message.IsInt64() {
		a.one, err = message.AsInt64()
		return a, err
	}
	if a.all, err = message.ToArray(); err == nil && len(a.all) != n*len(protocol.Answer{}) {
		err = fmt.Errorf("%d values in reply to %d requests", len(a.all), n)
	}
	return a, err
}

// of returns the answer to the request i: failed, if that is an error, which is the answer to all; else its values, or the error among them.
func (a answers) of(i int, failed error) (said protocol.Answer, err error) {
	switch {
	case failed != nil:
		return said, failed
	case a.all == nil:
		said[0] = a.one
		return said, nil
	}
	return answerOf(a.all[len(said)*i:])
}

// answerOf reads the next answer of a reply.
func answerOf(reply []rueidis.RedisMessage) (said protocol.Answer, err error) {
	for i := range said {
		if said[i], err = reply[i].AsInt64(); err != nil {
			return protocol.Answer{}, err
		}
	}
	return said, nil
}

// tookSome reports whether the first number of a reply is more than 0. An error that the server replies with is an answer, too.
func tookSome(reply Reply) bool {
	if reply.Err() != nil {
		return true
	}
	numbers, err := reply.Ints()
	if err != nil {
		n, err := reply.Int()
		return err != nil || n != 0
	}
	return len(numbers) == 0 || numbers[0] != 0
}
