package scripts_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// giveBackAll is giveBackPermits of a numbered request.
func (c *counter) giveBackAll(ids string) (int64, error) {
	keys := []string{c.key, c.channel, c.leases(), c.requests()}
	return c.eval(scripts.PermitRelease, keys, append([]string{ids, plain, "1", "0"}, c.head(c.number())...)...).AsInt64()
}

// resizePermits is add for permits that expire.
func (c *counter) resizePermits(n string) (int64, error) {
	keys := []string{c.key, c.channel, c.requests(), c.leases()}
	return c.eval(scripts.SemaphoreRelease, keys, append(c.head(c.number()), n, plain, "2")...).AsInt64()
}

// createPermits is create for permits that expire.
func (c *counter) createPermits(n, ttl string) (int64, error) {
	keys := []string{c.key, c.channel, c.requests(), c.leases()}
	return c.eval(scripts.SemaphoreSet, keys, append(c.head(c.number()), n, plain, ttl)...).AsInt64()
}

// takenUntil are commands that have two permits taken until a time in milliseconds, for a minute at most.
func (c *counter) takenUntil(over int64, ids ...string) (commands [][]string) {
	commands = [][]string{{"DEL", "KEY"}, {"DEL", c.leases()}}
	for _, id := range ids {
		commands = append(commands, []string{"ZADD", c.leases(), strconv.FormatInt(over, 10), id})
	}
	return append(commands, []string{"PEXPIRE", c.leases(), aMinute})
}

// TestPermits_LastForAsLongAsTheirSemaphore shows that each script keeps the taken permits of a semaphore that has lost its time to live, or has a longer
// one: they would never come back. Redisson's addPermits sets the semaphore anew, without one.
func TestPermits_LastForAsLongAsTheirSemaphore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		held, other, third := strings.Repeat("h", 16), strings.Repeat("o", 16), strings.Repeat("t", 16)
		for lasts, set := range map[string][]string{"for ever": {"SET", "KEY", "3"}, "for an hour": {"SET", "KEY", "3", "PX", strconv.Itoa(hour)}} {
			for name, run := range map[string]func() (int64, error){
				"acquire":             func() (int64, error) { return first(c.permits(c.number(), "0", "0", third)) },
				"acquire in vain":     func() (int64, error) { return first(c.permits(c.number(), "0", "0", strings.Repeat(third, 4))) },
				"renew":               func() (int64, error) { return c.renewPermits(held) },
				"lease":               func() (int64, error) { return c.leaseOf(held, "") },
				"count":               func() (int64, error) { return first(c.countPermits()) },
				"total":               func() (int64, error) { return c.totalPermits(c.number(), "9") },
				"release":             func() (int64, error) { return c.giveBackPermits(held, "0", "0") },
				"release, or leave":   func() (int64, error) { return c.giveBackPermits(held, "0", "1") },
				"release all or none": func() (int64, error) { return c.giveBackAll(held) },
			} {
				c.set(append(c.takenUntil(time.Now().UnixMilli()+hour, held, other), set))
				_, err := run()
				require.NoError(t, err, name)
				require.Greater(t, c.int("PTTL", c.leases()), int64(hour-60_000), "%s, %s", name, lasts)
				if lasts == "for ever" {
					require.EqualValues(t, -1, c.int("PTTL", "KEY"), name)
				}
				ends := c.int("PTTL", c.leases())
				_, err = c.renewPermits(other)
				require.NoError(t, err, name)
				require.LessOrEqual(t, c.int("PTTL", c.leases()), ends, "%s: it is kept once", name)
			}
		}
	})
}

// TestPermits_ASemaphoreThatIsCreatedEndsWithTheTakenOnes shows that each script that creates a semaphore, since its key alone was deleted or evicted,
// gives it the time to live of the taken permits.
func TestPermits_ASemaphoreThatIsCreatedEndsWithTheTakenOnes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		held, other, third := strings.Repeat("h", 16), strings.Repeat("o", 16), strings.Repeat("t", 16)
		for name, x := range map[string]struct {
			over int64
			run  func() (int64, error)
			free string
		}{
			"acquire":             {hour, func() (int64, error) { return first(c.permits(c.number(), "0", "5", third)) }, "2"},
			"expired, acquire":    {-hour, func() (int64, error) { return first(c.permits(c.number(), "0", "0", third)) }, "1"},
			"total":               {hour, func() (int64, error) { return c.totalPermits(c.number(), "9") }, "7"},
			"expired, total":      {-hour, func() (int64, error) { return c.totalPermits(c.number(), "9") }, "9"},
			"release":             {hour, func() (int64, error) { return c.giveBackPermits(held, "0", "0") }, "1"},
			"release both":        {hour, func() (int64, error) { return c.giveBackPermits(held+other, "0", "0") }, "2"},
			"release all or none": {hour, func() (int64, error) { return c.giveBackAll(held) }, "1"},
			"create":              {hour, func() (int64, error) { return c.createPermits("5", "0") }, "3"},
			"resize":              {hour, func() (int64, error) { return c.resizePermits("4") }, "4"},
		} {
			c.set(c.takenUntil(time.Now().UnixMilli()+x.over, held, other))
			_, err := x.run()
			require.NoError(t, err, name)
			require.Equal(t, x.free, c.dump(), name)
			require.Positive(t, c.int("PTTL", "KEY"), name)
			require.LessOrEqual(t, c.int("PTTL", "KEY"), int64(60_000), name)
		}
		c.set(c.takenUntil(time.Now().UnixMilli()-hour, held, other))
		_, err := c.createPermits("5", "0")
		require.NoError(t, err)
		require.Equal(t, "5", c.dump())
		require.EqualValues(t, -1, c.int("PTTL", "KEY"), "it is to last for ever, and none is taken")
	})
}

// TestPermits_ASemaphoreForATimeKeepsTheTakenOnes shows that taken permits, which count, last for as long as the semaphore that is created beside them.
func TestPermits_ASemaphoreForATimeKeepsTheTakenOnes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		c.messages()
		c.set(c.takenUntil(time.Now().UnixMilli()+hour, strings.Repeat("h", 16)))
		n, err := c.createPermits("5", strconv.Itoa(hour))
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, "4", c.dump())
		for _, key := range []string{"KEY", c.leases()} {
			require.Greater(t, c.int("PTTL", key), int64(hour-60_000), key)
			require.LessOrEqual(t, c.int("PTTL", key), int64(hour), key)
		}
		require.Equal(t, []string{"4"}, c.messages())
		n, err = c.createPermits("9", "0")
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, "4", c.dump())
	})
}

// TestPermits_SayWhenTheirSemaphoreEnds shows that the answers about a permit say when it ends with its semaphore.
func TestPermits_SayWhenTheirSemaphoreEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		id := strings.Repeat("h", 16)
		ask := func(id, ms string) (n, ttl int64) {
			got, err := c.eval(scripts.PermitLease, []string{c.key, c.channel, c.leases()}, id, plain, ms).AsIntSlice()
			require.NoError(t, err)
			require.Len(t, got, 2)
			return got[0], got[1]
		}
		renew := func() int64 {
			n, err := c.renewPermits(id)
			require.NoError(t, err)
			return n
		}
		minute := func(n int64) {
			t.Helper()
			require.Positive(t, n)
			require.LessOrEqual(t, n, int64(60_000))
		}
		c.set(append(c.takenUntil(time.Now().UnixMilli()+hour, id), []string{"SET", "KEY", "3", "PX", aMinute}))
		for _, ms := range []string{"", "-1", strconv.Itoa(hour)} {
			n, ttl := ask(id, ms)
			minute(n)
			require.Equal(t, ttl, n)
		}
		minute(renew())
		n, ttl := ask(id, "2000")
		require.EqualValues(t, 2000, n)
		minute(ttl)
		n, _ = ask(strings.Repeat("o", 16), "")
		require.EqualValues(t, -2, n)

		c.set([][]string{{"SET", "KEY", "3"}})
		require.EqualValues(t, 1, renew())
		n, ttl = ask(id, "-1")
		require.EqualValues(t, -1, n)
		require.EqualValues(t, -1, ttl)
		n, ttl = ask(id, "2000")
		require.EqualValues(t, 2000, n)
		require.EqualValues(t, -1, ttl)
		require.EqualValues(t, 1, renew())

		// The semaphore was created anew, for a shorter time: the next program that acquires a permit has them all end with it.
		for _, leases := range [][]string{{"PERSIST", c.leases()}, {"PEXPIRE", c.leases(), strconv.Itoa(hour)}} {
			c.set(append(c.takenUntil(time.Now().UnixMilli()+hour, id), leases, []string{"SET", "KEY", "3", "PX", aMinute}))
			n, ttl = ask(id, "")
			minute(n)
			minute(ttl)
			minute(renew())
		}
	})
}
