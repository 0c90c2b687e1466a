package spec

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMultiCheckRejects has traces of MultiLocks leave the protocol, each with its last event.
func TestMultiCheckRejects(t *testing.T) {
	members := []string{"k", "l", "m"}
	says := func(action string, member int) MultiSaid {
		return MultiSaid{Action: action, Process: "p", Call: 1, Member: member}
	}
	begin := MultiSaid{Action: "Begin", Process: "p", Call: 1, Members: members}
	try := func(from, many int) MultiSaid {
		return MultiSaid{Action: "Try", Process: "p", Call: 1, Member: from, Many: many}
	}
	granted := func(i int) MultiSaid {
		return MultiSaid{Action: "Granted", Process: "p", Key: members[i], Owner: "p:1"}
	}
	has := func(i int) MultiSaid {
		return MultiSaid{Action: "Has", Process: "p", Call: 1, Member: i, Owner: "p:1", Lease: members[i]}
	}
	over := func(lease string, freed bool) MultiSaid { return MultiSaid{Action: "Over", Lease: lease, Freed: freed} }
	stands := func(process, key string) MultiSaid {
		return MultiSaid{Action: "Stands", Process: process, Key: key, Owner: process + ":1"}
	}
	take := MultiSaid{Action: "Take", Process: "p", Call: 1, Lease: "whole"}
	end, later := says("End", 0), func(e MultiSaid) MultiSaid { e.At = time.Second; return e }
	with := func(some []MultiSaid, more ...MultiSaid) []MultiSaid { return append(slices.Clone(some), more...) }

	tries := []MultiSaid{granted(0), granted(1), granted(2), begin, try(0, 3)}
	refused := with(tries, has(0), says("Refused", 1), has(2))
	waits := with(refused, over("m", true), says("Stand", 1))
	all := with(tries, has(0), has(1), has(2))
	holds := with(all, take)
	yields := with(waits, says("Yield", 1))
	for name, trace := range map[string][]MultiSaid{
		"members out of order":               {{Action: "Begin", Call: 1, Members: []string{"l", "k"}}},
		"a member twice":                     {{Action: "Begin", Call: 1, Members: []string{"k", "k"}}},
		"no members":                         {{Action: "Begin", Call: 1}},
		"begun again":                        with(tries, begin),
		"a call that has not begun":          {try(0, 3)},
		"a member that is not there":         {begin, try(1, 3)},
		"some of the missing ones":           {begin, try(0, 2)},
		"not the first missing one":          {begin, try(1, 2)},
		"waits without a try":                {begin, says("Stand", 0)},
		"a member that nobody granted":       {begin, try(0, 3), has(0)},
		"a member of another process":        {{Action: "Granted", Process: "q", Key: "k", Owner: "p:1"}, begin, try(0, 3), has(0)},
		"answers out of order":               with(tries, has(1)),
		"more answers than requests":         with(all, has(2)),
		"one lease twice":                    with(tries, has(0), MultiSaid{Action: "Has", Process: "p", Call: 1, Member: 1, Owner: "p:1", Lease: "k"}),
		"a member without a request":         {granted(0), begin, has(0)},
		"keeps one behind the refused one":   with(refused, says("Stand", 1)),
		"waits for one behind":               with(refused, over("m", true), says("Stand", 2)),
		"waits for one that it has":          with(refused, over("m", true), says("Stand", 0)),
		"tries again in place of waiting":    with(refused, over("m", true), try(1, 2)),
		"gives back one that it keeps":       with(refused, over("k", true)),
		"gives back one while it waits":      with(waits, over("k", true)),
		"gets another one than it waits for": with(waits, has(2)),
		"waits for two":                      with(waits, says("Stand", 2)),
		"tries while it waits":               with(waits, try(1, 2)),
		"joins a queue while it tries":       with(tries, stands("p", "k")),
		"joins the queue of another member":  with(waits, stands("p", "k")),
		"another process joins the queue":    with(waits, stands("q", "l")),
		"the whole without a member":         with(refused, take),
		"the whole while it waits":           with(waits, take),
		"the whole after a refusal":          with(waits, says("Refused", 1), take),
		"gives back one of the whole":        with(holds, over("l", true)),
		"an end with a lease":                with(holds, end),
		"keeps one after the end":            with(waits, end, later(granted(0))),
		"begins with one from before":        with(waits, end, begin),
		"keeps one after Unlock":             with(holds, over("whole", true), over("k", true), over("m", true), later(granted(0))),
		"yields what it does not wait for":   with(waits, says("Yield", 0)),
		"keeps one while it yields":          with(yields, has(1)),
		"the whole with one of before":       with(yields, over("k", true), has(1), take),
		"tries one that it has":              with(yields, over("k", true), has(1), try(1, 1)),
		"what is no action":                  {begin, says("Dance", 0)},
	} {
		c := NewMultiCheck(time.Millisecond)
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	released := []MultiSaid{over("k", true), over("l", true), over("m", true)}
	for name, trace := range map[string][]MultiSaid{
		"all at once":           with(with(holds, over("whole", true)), released...),
		"all after a wait":      with(with(waits, stands("p", "l"), MultiSaid{Action: "Has", Process: "p", Call: 1, Member: 1, Owner: "p:1", Lease: "l"}, says("Stand", 2), MultiSaid{Action: "Has", Process: "p", Call: 1, Member: 2, Owner: "p:1", Lease: "m2"}, take, over("whole", true)), append(released, over("m2", true))...),
		"a part is lost":        with(with(holds, over("l", false), over("whole", false)), released...),
		"lost while it waits":   with(waits, over("k", false), says("Refused", 1), end),
		"it gives up":           with(waits, says("Refused", 1), end, over("k", true)),
		"it begins again":       with(waits, end, over("k", true), begin, end),
		"a try that ends early": with(tries, has(0), try(1, 2), has(1), has(2), end, over("k", true), over("l", true), over("m", true)),
		"it yields": with(yields, over("k", true), MultiSaid{Action: "Has", Process: "p", Call: 1, Member: 1, Owner: "p:1", Lease: "l"}, try(0, 1),
			MultiSaid{Action: "Has", Process: "p", Call: 1, Member: 0, Owner: "p:1", Lease: "k2"}, try(2, 1), says("Refused", 2), end, over("l", true), over("k2", true), later(end)),
	} {
		c := NewMultiCheck(time.Millisecond)
		for _, e := range trace {
			require.NoError(t, c.Say(e), name)
		}
		require.NoError(t, c.Done(time.Minute), name)
	}
	for name, trace := range map[string][]MultiSaid{
		"a call that does not end":    waits,
		"a part of what has ended":    with(holds, over("whole", true), over("k", true)),
		"a part of what it has lost":  with(holds, over("l", false), over("whole", false), over("k", true)),
		"a holder that does not end":  holds,
		"a part of a call that fails": with(waits, end),
	} {
		c := NewMultiCheck(time.Millisecond)
		for _, e := range trace {
			require.NoError(t, c.Say(e), name)
		}
		require.ErrorContains(t, c.Done(0), "leaves the protocol", name)
	}
}
