package scripts_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

const (
	keep    = "120000" // ms; how long results are kept
	aMinute = "60000"  // ms; a lease that does not end while a test runs
)

// A counter is a key that counts, with its companions, and a client that numbers its requests.
type counter struct {
	*scene
	numbered int
}

func newCounter(s *scene) *counter {
	s.channel = "redisson_sc:{" + s.key + "}"
	s.listen()
	return &counter{scene: s}
}

func (c *counter) requests() string { return "lockgen_requests:{" + c.key + "}:us" }
func (c *counter) leases() string   { return "{" + c.key + "}:timeout" }
func (c *counter) deleted() string  { return "lockgen_deleted:{" + c.key + "}" }

// number returns the number of the next request; none before it is open.
func (c *counter) number() string {
	c.numbered++
	return strconv.Itoa(c.numbered)
}

func (c *counter) head(number string) []string { return []string{number, number, keep} }

func (c *counter) take(number, again, initial string, wants ...string) (int64, error) {
	args := append(c.head(number), again, initial, plain)
	return c.eval(scripts.SemaphoreAcquire, []string{c.key, c.channel, c.requests()}, append(args, wants...)...).AsInt64()
}

func (c *counter) add(number, n, exists string) (int64, error) {
	return c.eval(scripts.SemaphoreRelease, []string{c.key, c.channel, c.requests()}, append(c.head(number), n, plain, exists)...).AsInt64()
}

func (c *counter) create(number, n, ttl string) (int64, error) {
	return c.eval(scripts.SemaphoreSet, []string{c.key, c.channel, c.requests()}, append(c.head(number), n, plain, ttl)...).AsInt64()
}

func (c *counter) drain(number string) (int64, error) {
	return c.eval(scripts.SemaphoreDrain, []string{c.key, c.requests()}, c.head(number)...).AsInt64()
}

func (c *counter) permits(number, again, initial string, wants ...string) ([]int64, error) {
	args := append(c.head(number), again, initial, plain)
	for _, ids := range wants {
		args = append(args, ids, aMinute)
	}
	reply, err := c.eval(scripts.PermitAcquire, []string{c.key, c.channel, c.requests(), c.leases()}, args...).AsIntSlice()
	return reply[:min(len(reply), 2)], err // the time to live is that of the semaphore
}

func (c *counter) giveBackPermits(ids, all, missing string) (int64, error) {
	return c.eval(scripts.PermitRelease, []string{c.key, c.channel, c.leases()}, ids, plain, all, missing).AsInt64()
}

func (c *counter) renewPermits(ids string) (int64, error) {
	got, err := c.eval(scripts.PermitRenew, []string{c.key, c.channel, c.leases()}, plain, ids, "600000").AsIntSlice()
	return first(got, err)
}

func (c *counter) countPermits() ([]int64, error) {
	return c.eval(scripts.PermitCount, []string{c.key, c.channel, c.leases()}, plain, "7").AsIntSlice()
}

func (c *counter) totalPermits(number, n string) (int64, error) {
	return c.eval(scripts.PermitSet, []string{c.key, c.channel, c.leases(), c.requests()}, append(c.head(number), n, plain)...).AsInt64()
}

func (c *counter) leaseOf(id, ms string) (int64, error) {
	return first(c.eval(scripts.PermitLease, []string{c.key, c.channel, c.leases()}, id, plain, ms).AsIntSlice()) // the rest is the time to live of all
}

func (c *counter) startLatch(number, n string) (int64, error) {
	return c.eval(scripts.LatchSet, []string{c.key, c.channel, c.requests(), c.deleted()}, append(c.head(number), n, plain, "1")...).AsInt64()
}

func (c *counter) countDown(number string) (int64, error) {
	return c.eval(scripts.LatchDown, []string{c.key, c.channel, c.requests()}, append(c.head(number), "0", plain)...).AsInt64()
}

func (c *counter) latchLeft() (int64, error) {
	return c.eval(scripts.LatchCount, []string{c.key, c.deleted()}).AsInt64()
}

func (c *counter) deleteLatch(number string) (int64, error) {
	return c.eval(scripts.LatchDelete, []string{c.key, c.channel, c.requests(), c.deleted()}, append(c.head(number), "1", plain)...).AsInt64()
}

// onBoth runs a test on each server.
func onBoth(t *testing.T, test func(t *testing.T, c *counter)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newCounter(newSceneUnheard(t, b.client(t))))
		})
	}
}

// models runs random steps, each perhaps twice, on each server.
func models(t *testing.T, step func(r *rapid.T, c *counter) map[string]func(*rapid.T)) {
	onBoth(t, func(t *testing.T, c *counter) {
		rapid.Check(t, func(r *rapid.T) {
			for _, key := range []string{c.key, c.requests(), c.leases(), c.deleted()} {
				require.NoError(t, c.command("DEL", key).Error())
			}
			c.messages()
			r.Repeat(step(r, c))
		})
	})
}

// twice runs a step once or twice and requires the same answer.
func twice(r *rapid.T, want int64, run func() (int64, error)) {
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		got, err := run()
		require.NoError(r, err)
		require.Equal(r, want, got)
	}
}

// heardOnly checks the messages since the last call.
func (c *counter) heardOnly(r *rapid.T, want []string) {
	require.Equal(r, want, c.messages())
}

func positive(n int) []string {
	if n > 0 {
		return []string{strconv.Itoa(n)}
	}
	return nil
}

func TestSemaphore_Model(t *testing.T) {
	t.Parallel()
	models(t, func(_ *rapid.T, c *counter) map[string]func(*rapid.T) {
		var exists bool
		var free int
		var said []string
		return map[string]func(*rapid.T){
			"create": func(r *rapid.T) {
				n, number := rapid.IntRange(0, 5).Draw(r, "n"), c.number()
				want := int64(1)
				if exists {
					want = 0
				} else {
					exists, free, said = true, n, positive(n)
				}
				twice(r, want, func() (int64, error) { return c.create(number, strconv.Itoa(n), "0") })
			},
			"acquire": func(r *rapid.T) {
				wants := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(r, "wants")
				initial, number := rapid.IntRange(0, 3).Draw(r, "initial"), c.number()
				if !exists && initial > 0 {
					exists, free, said = true, initial, positive(initial)
				}
				granted, words := int64(0), make([]string, len(wants))
				enough := exists
				for i, n := range wants {
					words[i] = strconv.Itoa(n)
					if enough = enough && n <= free; enough {
						free -= n
						granted++
					}
				}
				twice(r, granted, func() (int64, error) { return c.take(number, "1", strconv.Itoa(initial), words...) })
			},
			"release": func(r *rapid.T) {
				n, number := rapid.IntRange(1, 4).Draw(r, "n"), c.number()
				exists, free = true, free+n
				said = positive(free)
				twice(r, 1, func() (int64, error) { return c.add(number, strconv.Itoa(n), "0") })
			},
			"resize": func(r *rapid.T) {
				n, number := rapid.IntRange(-4, 4).Draw(r, "n"), c.number()
				want := int64(0)
				said = positive(n) // to waiters that may create it
				if exists {
					want, free = 1, free+n
					said = positive(free)
				}
				twice(r, want, func() (int64, error) { return c.add(number, strconv.Itoa(n), "1") })
			},
			"drain": func(r *rapid.T) {
				number := c.number()
				taken := max(free, 0)
				free -= taken
				twice(r, int64(taken), func() (int64, error) { return c.drain(number) })
			},
			"delete": func(r *rapid.T) {
				require.NoError(r, c.command("DEL", "KEY").Error())
				exists, free = false, 0
			},
			"": func(r *rapid.T) {
				var want any
				if exists {
					want = strconv.Itoa(free)
				}
				require.Equal(r, want, c.dump())
				c.heardOnly(r, said)
				said = nil
				require.LessOrEqual(r, c.int("ZCARD", c.requests()), int64(2), "results that nobody needs")
			},
		}
	})
}

func TestPermits_Model(t *testing.T) {
	t.Parallel()
	models(t, func(_ *rapid.T, c *counter) map[string]func(*rapid.T) {
		var exists bool
		var free, made int
		var said []string
		held := map[string]bool{} // by id: whether it has expired
		id := func() string { made++; return fmt.Sprintf("%016d", made) }
		some := func(r *rapid.T) string { return fmt.Sprintf("%016d", rapid.IntRange(1, made+1).Draw(r, "id")) }
		taken := func() (n int64) {
			for _, over := range held {
				if !over {
					n++
				}
			}
			return n
		}
		reclaim := func(creates bool) {
			if !exists && !creates {
				return // the request that creates it knows how many there are in all
			}
			back := 0
			for id, over := range held {
				if over {
					delete(held, id)
					back++
				}
			}
			if back > 0 {
				exists, free = true, free+back
				said = append(said, positive(free)...)
			}
		}
		return map[string]func(*rapid.T){
			"acquire": func(r *rapid.T) {
				wants := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(r, "wants")
				initial, number := rapid.IntRange(0, 4).Draw(r, "initial"), c.number()
				if !exists && initial > 0 {
					exists, free = true, initial-len(held)
					said = append(said, positive(free)...)
				}
				reclaim(true)
				granted, words := int64(0), make([]string, len(wants))
				enough := exists
				for i, n := range wants {
					var ids []string
					for range n {
						ids = append(ids, id())
					}
					words[i] = strings.Join(ids, "")
					if enough = enough && n <= free; enough {
						free -= n
						granted++
						for _, id := range ids {
							held[id] = false
						}
					}
				}
				twice(r, granted, func() (int64, error) { return first(c.permits(number, "1", strconv.Itoa(initial), words...)) })
			},
			"expire": func(r *rapid.T) {
				id := some(r)
				if _, there := held[id]; there {
					require.NoError(r, c.command("ZADD", c.leases(), "1", id).Error())
					held[id] = true
				}
			},
			"release": func(r *rapid.T) {
				ids := []string{some(r), some(r)}
				if ids[0] == ids[1] {
					ids = ids[:1]
				}
				all := rapid.Bool().Draw(r, "all")
				leave := rapid.Bool().Draw(r, "leave")
				removed, valid, fine := 0, int64(0), true
				for _, id := range ids {
					over, there := held[id]
					fine = fine && there && !over
				}
				if fine || !all {
					for _, id := range ids {
						if over, there := held[id]; there {
							delete(held, id)
							removed++
							if !over {
								valid++
							}
						}
					}
				}
				switch {
				case removed == 0:
				case leave && !exists:
					said = positive(removed) // to waiters that may create it
				default:
					exists, free = true, free+removed
					said = positive(free)
				}
				flag := map[bool]string{false: "0", true: "1"}
				got, err := c.giveBackPermits(strings.Join(ids, ""), flag[all], flag[leave])
				require.NoError(r, err)
				require.Equal(r, valid, got)
				got, err = c.giveBackPermits(strings.Join(ids, ""), flag[all], flag[leave])
				require.NoError(r, err)
				require.Zero(r, got, "they are back already")
			},
			"renew": func(r *rapid.T) {
				id := some(r)
				want := int64(0)
				reclaim(false)
				if over, there := held[id]; there && !over {
					want = 1
				}
				twice(r, want, func() (int64, error) { return c.renewPermits(id) })
			},
			"lease": func(r *rapid.T) {
				id := some(r)
				reclaim(false)
				want := int64(-2)
				if over, there := held[id]; there && !over {
					want = -1
				}
				twice(r, want, func() (int64, error) { return c.leaseOf(id, "-1") })
			},
			"total": func(r *rapid.T) {
				n := rapid.IntRange(0, 6).Draw(r, "n")
				reclaim(true)
				if !exists || free != n-len(held) {
					exists, free = true, n-len(held)
					said = append(said, positive(free)...)
				}
				number := c.number()
				twice(r, max(int64(free), 0), func() (int64, error) { return c.totalPermits(number, strconv.Itoa(n)) })
			},
			"count": func(r *rapid.T) {
				reclaim(false)
				got, err := c.countPermits()
				require.NoError(r, err)
				available := int64(free)
				if !exists {
					available = 7 - taken()
				}
				require.Equal(r, []int64{available, taken()}, got)
			},
			"delete": func(r *rapid.T) {
				require.NoError(r, c.command("DEL", "KEY").Error())
				exists, free = false, 0
			},
			"": func(r *rapid.T) {
				var want any
				if exists {
					want = strconv.Itoa(free)
				}
				require.Equal(r, want, c.dump())
				require.Equal(r, int64(len(held)), c.int("ZCARD", c.leases()))
				c.heardOnly(r, said)
				said = nil
			},
		}
	})
}

func TestLatch_Model(t *testing.T) {
	t.Parallel()
	models(t, func(_ *rapid.T, c *counter) map[string]func(*rapid.T) {
		left, deleted := 0, false
		var said []string
		return map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				n, number := rapid.IntRange(1, 3).Draw(r, "n"), c.number()
				want := int64(0)
				if left == 0 {
					want, left, deleted, said = 1, n, false, []string{"1"}
				}
				twice(r, want, func() (int64, error) { return c.startLatch(number, strconv.Itoa(n)) })
			},
			"set by Java": func(r *rapid.T) {
				if left == 0 {
					left = 2
					require.NoError(r, c.command("SET", "KEY", "2").Error())
				}
			},
			"count down": func(r *rapid.T) {
				number := c.number()
				if left == 1 {
					said = []string{"0"}
				}
				left = max(left-1, 0)
				twice(r, int64(left), func() (int64, error) { return c.countDown(number) })
			},
			"count": func(r *rapid.T) {
				want := int64(left)
				switch {
				case left > 0:
					deleted = false
				case deleted:
					want = -1
				}
				twice(r, want, c.latchLeft)
			},
			"delete": func(r *rapid.T) {
				number := c.number()
				want := int64(0)
				if left > 0 {
					want, left, deleted, said = 1, 0, true, []string{"1"}
				}
				twice(r, want, func() (int64, error) { return c.deleteLatch(number) })
			},
			"": func(r *rapid.T) {
				var want any
				if left > 0 {
					want = strconv.Itoa(left)
				}
				require.Equal(r, want, c.dump())
				require.Equal(r, deleted, c.int("EXISTS", c.deleted()) == 1)
				c.heardOnly(r, said)
				said = nil
			},
		}
	})
}

// TestCounting_LateRequestsDoNothing shows that a request does nothing that arrives after its
// client sent it again, was refused and went on.
func TestCounting_LateRequestsDoNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		ids := strings.Repeat("x", 16)
		_, err := c.create(c.number(), "1", "0")
		require.NoError(t, err)
		first, second := c.number(), c.number()
		for name, late := range map[string]func() (int64, error){
			"acquire": func() (int64, error) { return c.take(first, "0", "0", "1") },
			"permits": func() (int64, error) {
				got, err := c.permits(first, "0", "0", ids)
				if err != nil {
					return 0, err
				}
				return got[0], nil
			},
			"release":    func() (int64, error) { return c.add(first, "1", "0") },
			"create":     func() (int64, error) { return c.create(first, "1", "0") },
			"drain":      func() (int64, error) { return c.drain(first) },
			"total":      func() (int64, error) { return c.totalPermits(first, "5") },
			"set":        func() (int64, error) { return c.startLatch(first, "1") },
			"count down": func() (int64, error) { return c.countDown(first) },
			"delete":     func() (int64, error) { return c.deleteLatch(first) },
		} {
			n, err := c.take(second, "1", "0") // the client has withdrawn it
			require.NoError(t, err)
			require.Zero(t, n)
			n, err = late()
			require.NoError(t, err, name)
			require.EqualValues(t, -9, n, name)
			require.Equal(t, "1", c.dump(), name)
		}
		ttl := c.int("PTTL", c.requests())
		require.Positive(t, ttl, "what is kept for them expires")
	})
}

// TestPermits_TotalIsSetOnce shows that the second run of a request that sets how many permits there are undoes no later change. How many are
// free is no number that means something else.
func TestPermits_TotalIsSetOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		first := c.number()
		n, err := c.totalPermits(first, "5")
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
		require.NoError(t, c.command("INCRBY", "KEY", "2").Error()) // by another client
		n, err = c.totalPermits(first, "5")
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
		require.Equal(t, "7", c.dump())

		var ids strings.Builder
		for i := range 9 {
			fmt.Fprintf(&ids, "%016d", i)
		}
		_, err = c.totalPermits(c.number(), "9")
		require.NoError(t, err)
		_, err = c.permits(c.number(), "0", "0", ids.String())
		require.NoError(t, err)
		n, err = c.totalPermits(c.number(), "0")
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, "-9", c.dump())
	})
}

// TestCounting_WithdrawnRequestsTakeNothing shows that a lost request is not granted once its
// client has withdrawn it.
func TestCounting_WithdrawnRequestsTakeNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		id := strings.Repeat("x", 16)
		_, err := c.create(c.number(), "2", "0")
		require.NoError(t, err)
		for _, arrivesFirst := range []bool{false, true} {
			number := c.number()
			want := int64(0)
			if arrivesFirst {
				want = 1
				n, err := c.take(number, "0", "0", "1")
				require.NoError(t, err)
				require.Equal(t, want, n)
			}
			n, err := c.take(number, "1", "5")
			require.NoError(t, err)
			require.Equal(t, want, n)
			n, err = c.take(number, "0", "0", "1")
			require.NoError(t, err)
			require.Equal(t, want, n)
			require.Equal(t, strconv.FormatInt(2-want, 10), c.dump())
		}
		number := c.number()
		got, err := c.permits(number, "1", "5")
		require.NoError(t, err)
		require.EqualValues(t, 0, got[0])
		got, err = c.permits(number, "0", "0", id)
		require.NoError(t, err)
		require.EqualValues(t, 0, got[0])
		require.Equal(t, "1", c.dump())
	})
}

// TestPermits_OfARequestThatWasGivenUp shows that permits which an earlier request took are not counted twice when their client, which does
// not know that, asks for them again under another number.
func TestPermits_OfARequestThatWasGivenUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		first, others := strings.Repeat("x", 16), strings.Repeat("y", 16)+strings.Repeat("z", 16)
		_, err := c.create(c.number(), "3", "0")
		require.NoError(t, err)
		for range 2 {
			got, err := c.permits(c.number(), "0", "0", first)
			require.NoError(t, err)
			require.EqualValues(t, 1, got[0])
			require.Equal(t, "2", c.dump())
		}
		got, err := c.permits(c.number(), "0", "0", first+others)
		require.NoError(t, err)
		require.EqualValues(t, 1, got[0])
		require.Equal(t, "0", c.dump())
		n, err := c.giveBackPermits(first+others, "0", "0")
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		require.Equal(t, "3", c.dump())
	})
}

// TestPermits_AWithdrawalCreatesNoSemaphore shows that a client that knows how many permits there are does not create a semaphore of the expired
// ones alone when it gives up a request.
func TestPermits_AWithdrawalCreatesNoSemaphore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		require.NoError(t, c.command("ZADD", "{KEY}:timeout", "1000", strings.Repeat("x", 16)).Error())
		got, err := c.permits(c.number(), "1", "5")
		require.NoError(t, err)
		require.EqualValues(t, 0, got[0])
		require.Empty(t, c.dump())
		got, err = c.permits(c.number(), "0", "5", strings.Repeat("y", 16))
		require.NoError(t, err)
		require.EqualValues(t, 1, got[0])
		require.Equal(t, "4", c.dump())
	})
}

// TestPermits_OfATimeAfterTheSemaphoreWasDeleted shows that taken permits that were to end with a deleted semaphore count in the next one,
// and end with it.
func TestPermits_OfATimeAfterTheSemaphoreWasDeleted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		old := strings.Repeat("x", 16)
		_, err := c.create(c.number(), "5", aMinute)
		require.NoError(t, err)
		_, err = c.permits(c.number(), "0", "5", old)
		require.NoError(t, err)
		require.NoError(t, c.command("DEL", "KEY").Error())
		got, err := c.permits(c.number(), "0", "5", strings.Repeat("y", 16))
		require.NoError(t, err)
		require.EqualValues(t, 1, got[0])
		require.Equal(t, "3", c.dump())
		require.Positive(t, c.int("PTTL", "KEY"))
		require.LessOrEqual(t, c.int("PTTL", "KEY"), int64(60000))
		n, err := c.giveBackPermits(old, "0", "1")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, "4", c.dump())

		// The same when its size is set: one permit is taken.
		require.NoError(t, c.command("DEL", "KEY").Error())
		n, err = c.totalPermits(c.number(), "9")
		require.NoError(t, err)
		require.EqualValues(t, 8, n)
		require.Equal(t, "8", c.dump())
		require.Positive(t, c.int("PTTL", "KEY"))
		require.LessOrEqual(t, c.int("PTTL", "KEY"), int64(60000))
	})
}

func TestCounting_KeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		id := strings.Repeat("x", 16)
		for _, state := range []struct {
			set  []string
			dump any
		}{
			{[]string{"SET", "KEY", "text"}, "text"},
			{[]string{"SET", "KEY", "1.5"}, "1.5"},
			{[]string{"RPUSH", "KEY", "a"}, []string{"a"}},
		} {
			c.set([][]string{{"DEL", "KEY"}, {"ZADD", c.leases(), "1", id}, state.set})
			for name, run := range map[string]func() (int64, error){
				"acquire":        func() (int64, error) { return c.take(c.number(), "0", "5", "1") },
				"release":        func() (int64, error) { return c.add(c.number(), "1", "0") },
				"drain":          func() (int64, error) { return c.drain(c.number()) },
				"permits":        func() (int64, error) { return first(c.permits(c.number(), "0", "5", id)) },
				"permit release": func() (int64, error) { return c.giveBackPermits(id, "0", "0") },
				"total":          func() (int64, error) { return c.totalPermits(c.number(), "5") },
				"lease":          func() (int64, error) { return c.leaseOf(id, "") },
				"count":          func() (int64, error) { return first(c.countPermits()) },
				"count down":     func() (int64, error) { return c.countDown(c.number()) },
				"left":           c.latchLeft,
			} {
				_, err := run()
				require.ErrorContains(t, err, "WRONGTYPE", "%s %v", name, state.set)
				require.Equal(t, state.dump, c.dump(), name)
				require.EqualValues(t, 1, c.int("ZCARD", c.leases()), name)
			}
			for name, run := range map[string]func() (int64, error){
				"create": func() (int64, error) { return c.create(c.number(), "1", "0") },
				"set":    func() (int64, error) { return c.startLatch(c.number(), "1") },
			} {
				n, err := run()
				require.NoError(t, err, name)
				require.Zero(t, n, "it exists")
				require.Equal(t, state.dump, c.dump(), name)
			}
		}
	})
}

// TestCounting_KeepsTheTimeToLive shows that acquiring and releasing do not change the time to live
// of a semaphore, and that the taken permits expire with it.
func TestCounting_KeepsTheTimeToLive(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		_, err := c.create(c.number(), "5", "300000")
		require.NoError(t, err)
		id := strings.Repeat("x", 16)
		for name, run := range map[string]func() (int64, error){
			"acquire": func() (int64, error) { return c.take(c.number(), "0", "0", "1") },
			"release": func() (int64, error) { return c.add(c.number(), "1", "0") },
			"drain":   func() (int64, error) { return c.drain(c.number()) },
			"total":   func() (int64, error) { return c.totalPermits(c.number(), "5") },
			"permits": func() (int64, error) { return first(c.permits(c.number(), "0", "0", id)) },
		} {
			_, err := run()
			require.NoError(t, err, name)
			ttl := c.int("PTTL", "KEY")
			require.Positive(t, ttl, name)
			require.LessOrEqual(t, ttl, int64(300_000), name)
		}
		require.NoError(t, c.command("DEL", c.leases()).Error())
		_, err = c.totalPermits(c.number(), "1")
		require.NoError(t, err)
		got, err := c.permits(c.number(), "0", "0", id)
		require.NoError(t, err)
		require.EqualValues(t, 1, got[0])
		require.Positive(t, got[1], "when the next permit expires")
		require.LessOrEqual(t, got[1], int64(60_000))
		require.Positive(t, c.int("PTTL", c.leases()))
	})
}

// TestCounting_OutOfMemory shows that permits can be released and renewed when a server takes no
// more data.
func TestCounting_OutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := newCounter(newSceneUnheard(t, server.Client()))
	id := strings.Repeat("x", 16)
	_, err := c.create(c.number(), "3", "0")
	require.NoError(t, err)
	got, err := c.permits(c.number(), "0", "0", id)
	require.NoError(t, err)
	require.EqualValues(t, 1, got[0])
	score := func() float64 {
		ends, err := c.command("ZSCORE", c.leases(), id).AsFloat64()
		require.NoError(t, err)
		return ends
	}
	before := score()
	server.Do("CONFIG", "SET", "maxmemory", "1")

	_, err = c.take(c.number(), "0", "0", "1")
	require.ErrorContains(t, err, "OOM")
	_, err = c.permits(c.number(), "0", "0", strings.Repeat("y", 16))
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, "2", c.dump())

	n, err := c.renewPermits(id)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Greater(t, score(), before)
	n, err = c.giveBackPermits(id, "0", "0")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	n, err = c.add(c.number(), "1", "0")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, "4", c.dump())
	n, err = c.countDown(c.number())
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// TestPermitRenew_OneSickKeyDoesNotHarmTheOthers shows that a key of another type does not prevent
// the renewal of other permits.
func TestPermitRenew_OneSickKeyDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *counter) {
		id := strings.Repeat("x", 16)
		_, err := c.permits(c.number(), "0", "2", id)
		require.NoError(t, err)
		sick, text := c.key+"sick", c.key+"text"
		require.NoError(t, c.command("RPUSH", sick, "a").Error())
		require.NoError(t, c.command("SET", text, "text").Error())
		require.NoError(t, c.command("ZADD", text+"leases", "1", id).Error())
		got, err := c.eval(scripts.PermitRenew,
			[]string{c.key + "none", c.channel, c.key + "none", sick, c.channel, sick, text, c.channel, text + "leases", c.key, c.channel, c.leases()},
			plain, id, aMinute, id, aMinute, id, aMinute, id, aMinute).AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, 0, 0, 1}, got)
	})
}
