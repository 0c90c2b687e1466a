package transport

import (
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

// answerOf reads the next answer of a reply.
func answerOf(reply []rueidis.RedisMessage) (said protocol.Answer, err error) {
	for i := range said {
		if said[i], err = reply[i].AsInt64(); err != nil {
			return protocol.Answer{}, err
		}
	}
	return said, nil
}
