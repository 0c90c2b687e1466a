package scripts_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

func TestRaise(t *testing.T) {
	t.Parallel()
	const counter = "redisson_lock_token:{KEY}"
	onBackends(t, func(t *testing.T, s *scene) {
		raise := func(token int64, keep int) error {
			n, err := s.eval(scripts.Raise, []string{s.counter()}, strconv.FormatInt(token, 10), strconv.Itoa(keep)).AsInt64()
			if err == nil {
				require.EqualValues(t, 1, n)
			}
			return err
		}
		const token int64 = 9_007_199_254_000_000 // as many digits as a token can have
		for range 2 {
			require.NoError(t, raise(token, 60_000))
			require.EqualValues(t, token, s.number("GET", counter))
			require.Positive(t, s.int("PTTL", counter))
		}
		require.NoError(t, raise(token-1, 60_000))
		require.EqualValues(t, token, s.number("GET", counter), "never less")
		first, err := s.askFenced(ours, "0", 1, 60_000)
		require.NoError(t, err)
		require.EqualValues(t, token+1, first[1], "the next one is larger")

		require.NoError(t, s.command("PERSIST", counter).Error())
		require.NoError(t, raise(token+5, 60_000))
		require.EqualValues(t, -1, s.int("PTTL", counter), "Redisson's is kept for ever")
		require.NoError(t, s.command("SET", counter, "no number").Error())
		require.ErrorContains(t, raise(token, 0), "not an integer")
	})
}
