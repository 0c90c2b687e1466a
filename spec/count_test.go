package spec

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCountCheckRejects has traces leave the protocol, each with its last event.
func TestCountCheckRejects(t *testing.T) {
	request := func(process string, n int64) Request {
		return Request{Process: process, Number: n, Floor: 1, Keep: time.Minute}
	}
	seen := func(n int64) *CountSeen { return &CountSeen{Is: true, N: n} }
	none := &CountSeen{}
	taken := func(n int64, ids map[string]int64) *CountSeen { return &CountSeen{Is: true, N: n, Taken: ids} }
	take := func(n int64, granted int64, srv *CountSeen, wants ...int64) CountSaid {
		e := CountSaid{Action: "Take", Request: request("a", n), Make: 3, Reply: []int64{granted}, Srv: srv}
		for _, w := range wants {
			e.Wants = append(e.Wants, Want{N: w})
		}
		return e
	}
	made := take(1, 1, seen(1), 2)
	made.Published = []string{"3"}
	acquire := func(n, clock, granted, next int64, srv *CountSeen, ids ...string) CountSaid {
		e := CountSaid{Action: "Acquire", At: milliseconds(clock), Clock: clock, Request: request("a", n), Make: 3, Reply: []int64{granted, next}, Srv: srv}
		for _, id := range ids {
			e.Wants = append(e.Wants, Want{IDs: []string{id}, TTL: 1000})
		}
		return e
	}
	published := func(e CountSaid, some ...string) CountSaid { e.Published = some; return e }
	found := func(e CountSaid, reply ...int64) CountSaid {
		e.Found, e.Reply, e.Published = true, reply, nil
		return e
	}
	has := []CountSaid{published(acquire(1, 0, 2, 1000, taken(1, map[string]int64{"x": 1000, "y": 1000}), "x", "y"), "3")}
	release := func(clock, valid int64, srv *CountSeen, ids ...string) CountSaid {
		return CountSaid{Action: "Release", At: milliseconds(clock), Clock: clock, Wants: []Want{{IDs: ids}}, Reply: []int64{valid}, Srv: srv}
	}
	renew := func(clock, done int64, srv *CountSeen, ids ...string) CountSaid {
		return CountSaid{Action: "Renew", At: milliseconds(clock), Clock: clock, Wants: []Want{{IDs: ids, TTL: 1000}}, Reply: []int64{done}, Srv: srv}
	}
	start := CountSaid{Action: "Start", Request: request("a", 1), Make: 2, Reply: []int64{1}, Published: []string{"1"}, Srv: seen(2)}
	down := func(n, left int64, srv *CountSeen, some ...string) CountSaid {
		return CountSaid{Action: "Down", Request: request("a", n), Reply: []int64{left}, Published: some, Srv: srv}
	}
	lease := func(clock, ttl, left int64, srv *CountSeen, id string, some ...string) CountSaid {
		return CountSaid{Action: "Lease", At: milliseconds(clock), Clock: clock, Wants: []Want{{IDs: []string{id}, TTL: ttl}}, Reply: []int64{left},
			Published: some, Srv: srv}
	}
	total := func(clock, n, left int64, srv *CountSeen, some ...string) CountSaid {
		return CountSaid{Action: "Total", At: milliseconds(clock), Clock: clock, Make: n, Reply: []int64{left}, Published: some, Srv: srv}
	}
	create := func(n, make_, done int64, srv *CountSeen, some ...string) CountSaid {
		return CountSaid{Action: "Create", Request: request("a", n), Make: make_, Reply: []int64{done}, Published: some, Srv: srv}
	}
	drain := func(n, took int64, srv *CountSeen) CountSaid {
		return CountSaid{Action: "Drain", Request: request("a", n), Reply: []int64{took}, Srv: srv}
	}
	remove := func(n, done int64, srv *CountSeen, some ...string) CountSaid {
		return CountSaid{Action: "Delete", Request: request("a", n), Reply: []int64{done}, Published: some, Srv: srv}
	}
	with := func(some []CountSaid, last CountSaid) []CountSaid { return append(slices.Clone(some), last) }
	for name, trace := range map[string][]CountSaid{
		"more than there is":                     {made, take(2, 1, seen(-1), 2)},
		"fewer than there are":                   {made, take(2, 0, seen(1), 1)},
		"the second and not the first":           {made, take(2, 1, seen(0), 2, 1)},
		"granted, and there are as many":         {made, take(2, 1, seen(1), 1)},
		"done twice":                             {made, take(1, 0, seen(1), 2)},
		"another result":                         {made, found(made, 0)},
		"a result of nobody":                     {made, found(take(2, 0, nil, 1), 0)},
		"given up by nobody":                     {made, found(made, GivenUp)},
		"a publication of what was done before":  {made, published(found(made, 1), "3")},
		"created without a word":                 {take(1, 1, seen(1), 2)},
		"come back, and there are as many":       {made, {Action: "Give", Request: request("a", 2), Give: 2, Reply: []int64{1}, Published: []string{"3"}, Srv: seen(1)}},
		"come back without a word":               {made, {Action: "Give", Request: request("a", 2), Give: 2, Reply: []int64{1}, Srv: seen(3)}},
		"more permits than there are":            with(has, acquire(2, 1, 2, 999, taken(-1, map[string]int64{"x": 1000, "y": 1000, "z": 1001, "w": 1001}), "z", "w")),
		"a longer lease":                         with(has, acquire(2, 1, 1, 999, taken(0, map[string]int64{"x": 1000, "y": 1000, "z": 2001}), "z")),
		"the next one expires at another time":   with(has, acquire(2, 1, 1, 1999, taken(0, map[string]int64{"x": 1000, "y": 1000, "z": 1001}), "z")),
		"expired, and not available":             with(has, acquire(2, 1000, 1, 1000, taken(0, map[string]int64{"x": 1000, "y": 1000, "z": 2000}), "z")),
		"available before it has expired":        with(has, published(acquire(2, 999, 1, 1000, taken(2, map[string]int64{"z": 1999}), "z"), "3")),
		"released without a word":                with(has, release(1, 1, taken(2, map[string]int64{"y": 1000}), "x")),
		"the number that came back is published": with(has, published(release(1, 1, taken(2, map[string]int64{"y": 1000}), "x"), "1")),
		"expired, and released in time":          with(has, published(release(1000, 1, taken(2, map[string]int64{"y": 1000}), "x"), "2")),
		"renewed for longer":                     with(has, renew(1, 1, taken(1, map[string]int64{"x": 2001, "y": 1000}), "x")),
		"renewed for less":                       append(slices.Clone(has), renew(500, 1, nil, "x"), renew(1, 1, taken(1, map[string]int64{"x": 1001, "y": 1000}), "x")),
		"renewed though one is not there":        with(has, renew(1, 1, taken(1, map[string]int64{"x": 1001, "y": 1000}), "x", "z")),
		"started again":                          {start, {Action: "Start", Request: request("b", 1), Make: 2, Reply: []int64{1}, Published: []string{"1"}, Srv: seen(2)}},
		"open too early":                         {start, down(2, 0, none, "0")},
		"open without a word":                    {start, down(2, 1, seen(1)), down(3, 0, none)},
		"open, and it is there":                  {start, down(2, 1, seen(1)), down(3, 0, seen(0), "0")},
		"counted down twice":                     {start, down(2, 1, seen(1)), down(2, 0, none, "0")},
		"read as another count":                  {start, {Action: "Read", Reply: []int64{3}, Srv: seen(2)}},
		"available as another count":             with(has, CountSaid{Action: "Look", Make: 3, Reply: []int64{2, 2}}),
		"one permit set to last longer":          with(has, lease(1, 500, 500, taken(1, map[string]int64{"x": 502, "y": 1000}), "x")),
		"one permit that ends as before":         with(has, lease(1, 500, 500, taken(1, map[string]int64{"x": 1000, "y": 1000}), "x")),
		"the other permit ends with it":          with(has, lease(1, 500, 500, taken(1, map[string]int64{"x": 501, "y": 501}), "x")),
		"lasts for another time":                 with(has, lease(1, 0, 1000, nil, "x")),
		"looked at, and longer by that":          with(has, lease(1, 0, 999, taken(1, map[string]int64{"x": 1001, "y": 1000}), "x")),
		"set after its end":                      with(has, lease(1000, 500, 500, taken(1, map[string]int64{"x": 1500, "y": 1000}), "x")),
		"two permits at once":                    with(has, CountSaid{Action: "Lease", Wants: []Want{{IDs: []string{"x", "y"}}}, Reply: []int64{1000}}),
		"one that is released, and lasts":        append(slices.Clone(has), published(release(1, 1, nil, "x"), "2"), lease(2, 0, 998, nil, "x")),
		"more in all, and as many are left":      with(has, total(1, 5, 1, taken(1, has[0].Srv.Taken))),
		"more in all without a word":             with(has, total(1, 5, 3, taken(3, has[0].Srv.Taken))),
		"as many in all, and a word":             with(has, total(1, 3, 1, taken(1, has[0].Srv.Taken), "1")),
		"fewer than none, and a word":            with(has, total(1, 1, 0, taken(-1, has[0].Srv.Taken), "-1")),
		"created, and it was there":              {made, create(2, 9, 1, seen(9), "9")},
		"created as another":                     {create(1, 9, 1, seen(8), "9")},
		"drained of one":                         {made, drain(2, 1, seen(1))},
		"drained below nothing":                  {made, drain(2, 2, seen(-1))},
		"there was none, and the reply is 1":     {{Action: "Give", Request: request("a", 1), Give: 2, Had: true, Reply: []int64{1}, Published: []string{"2"}}},
		"deleted, and still there":               {start, remove(2, 1, seen(2), "1")},
		"deleted without a word":                 {start, remove(2, 1, none)},
		"deleted, and there was none":            {remove(1, 1, none, "1")},
		"a result that nobody has got":           {made, {Action: "Take", Request: request("a", 2), Found: true}},
		"a reply that is too long":               {made, {Action: "Drain", Request: request("a", 2), Reply: []int64{1, 1}}},
		"what is no action":                      {{Action: "Dance"}},
	} {
		c := NewCountCheck()
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	again := take(4, 0, seen(1), 2)
	again.Request.Again, again.Request.Floor = true, 4
	five := total(1, 5, 5, seen(5), "5")
	five.Request = request("a", 1)
	for name, trace := range map[string][]CountSaid{
		"taken, and taken back": {made, found(made, 1), take(2, 1, seen(0), 1, 1), {Action: "Give", Request: request("a", 3), Give: 1, Reply: []int64{1}, Published: []string{"1"}, Srv: seen(1)},
			again, found(again, 0), found(made, GivenUp)},
		"permits": append(slices.Clone(has), renew(500, 1, taken(1, map[string]int64{"x": 1500, "y": 1000}), "x"),
			published(acquire(2, 1000, 1, 500, taken(1, map[string]int64{"x": 1500, "z": 2000}), "z"), "2"),
			release(1001, 0, taken(1, map[string]int64{"x": 1500, "z": 2000}), "y"), published(renew(1500, 0, taken(2, map[string]int64{"z": 2000}), "x"), "2"),
			CountSaid{Action: "Look", Clock: 1501, Make: 3, Reply: []int64{2, 1}}),
		"a latch": {start, {Action: "Start", Request: request("b", 1), Make: 2, Reply: []int64{0}, Srv: seen(2)}, down(2, 1, seen(1)), found(down(2, 1, seen(1)), 1),
			{Action: "Read", Reply: []int64{1}}, down(3, 0, none, "0"), {Action: "Read", Reply: []int64{0}}, down(4, 0, none)},
		"one permit": append(slices.Clone(has), lease(1, 2000, 2000, taken(1, map[string]int64{"x": 2001, "y": 1000}), "x"), lease(2, 0, 998, nil, "y"),
			lease(3, 100, 100, taken(1, map[string]int64{"x": 2001, "y": 103}), "y"), lease(103, 100, -2, taken(2, map[string]int64{"x": 2001}), "y", "2"),
			lease(104, Endless, -1, taken(2, map[string]int64{"x": never}), "x"),
			acquire(2, 105, 0, -1, taken(2, map[string]int64{"x": never}))),
		"how many in all": append(slices.Clone(has), total(1, 3, 1, taken(1, has[0].Srv.Taken)), total(1, 5, 3, taken(3, has[0].Srv.Taken), "3"),
			total(1, 1, 0, taken(-1, has[0].Srv.Taken)), total(1000, 1, 1, seen(1), "1"), create(2, 9, 0, seen(1))),
		"how many in all, twice": {five, found(five, 5), create(2, 9, 0, seen(5))},
		"created, drained, and more": {create(1, 9, 1, seen(9), "9"), create(2, 5, 0, seen(9)), drain(3, 9, seen(0)), drain(4, 0, seen(0)),
			{Action: "Give", Request: request("a", 5), Give: -2, Had: true, Reply: []int64{1}, Srv: seen(-2)}, drain(6, 0, seen(-2))},
		"more of none":                     {{Action: "Give", Request: request("a", 1), Give: 2, Had: true, Reply: []int64{0}, Published: []string{"2"}, Srv: seen(2)}},
		"a deleted latch":                  {remove(9, 0, none), start, remove(2, 1, none, "1"), remove(3, 0, none)},
		"a reply that nobody knows":        {{Action: "Create", Request: request("a", 1), Make: 2, Published: []string{"2"}, Srv: seen(2)}, {Action: "Create", Request: request("a", 1), Found: true, Srv: seen(2)}},
		"a fault":                          {made, {Action: "Fault", Srv: none}, published(take(1, 1, seen(1), 2), "3")},
		"a request that a fault disturbed": {made, {Action: "Fault", Request: request("a", 2), Srv: seen(0)}, found(take(2, 0, nil, 1), 1)},
	} {
		c := NewCountCheck()
		for _, e := range trace {
			require.NoError(t, c.Say(e), name)
		}
	}
}
