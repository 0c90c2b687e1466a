package ctl

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/internal/survey"
)

// mostOrphans is how many keys of each server the search for orphans reads.
const mostOrphans = 100_000

// orphans searches for wait queues with processes that do not listen any more.
func (o *options) orphans(ctx context.Context) (Finding, error) {
	alive := map[string]bool{}
	nodes := o.rc.Nodes()
	for _, node := range nodes {
		names, err := node.Do(ctx, node.B().PubsubChannels().Pattern("lockgen_process:*").Build()).AsStrSlice()
		if err != nil {
			return Finding{}, err
		}
		for _, name := range names {
			alive[strings.TrimPrefix(name, "lockgen_process:")[:min(36, len(name)-len("lockgen_process:"))]] = true
		}
	}
	addrs := sortedKeys(nodes)
	searches := make([]search, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() { searches[i] = o.orphansOf(ctx, nodes[addr], alive) })
	}
	all.Wait()
	var gone, early []string // wait queues, and servers with more keys than were read
	for i, s := range searches {
		if s.err != nil {
			return Finding{}, s.err
		}
		gone = append(gone, s.gone...)
		if s.early {
			early = append(early, addrs[i])
		}
	}
	among := ""
	if len(early) > 0 {
		among = "among the first 100,000 keys of " + strings.Join(early, ", ") + ": "
		if len(addrs) > len(early) {
			among = "among the first 100,000 keys of " + strings.Join(early, ", ") + ", and all keys of the other servers: "
		}
	}
	if len(gone) == 0 {
		return Finding{"", "orphans", stateOK, among + "no process that is gone stands in a wait queue", ""}, nil
	}
	return Finding{"", "orphans", stateNote,
		fmt.Sprintf("%sprocesses that are gone stand in %s, as %s", among, count(len(gone), "wait queue", "wait queues"), gone[0]),
		"nothing: they are passed over at the next release, and the queue expires"}, nil
}

// A search is that for orphans on one server.
type search struct {
	gone  []string // wait queues with processes that are gone
	early bool     // it ended before it had read all keys
	err   error
}

func (o *options) orphansOf(ctx context.Context, node rueidis.Client, alive map[string]bool) (s search) {
	if isReplica(ctx, node) {
		return s
	}
	cursor := uint64(0)
	for read := 0; read < mostOrphans; read += 1000 {
		entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match("lockgen_waiting:*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			s.err = err
			return s
		}
		for _, key := range entry.Elements {
			places, err := o.rc.Do(ctx, o.rc.B().Lrange().Key(key).Start(0).Stop(survey.MostFields-1).Build()).AsStrSlice()
			if err != nil {
				s.err = err
				return s
			}
			for _, p := range places {
				if len(p) >= 36 && !alive[p[:36]] {
					s.gone = append(s.gone, key)
					break
				}
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			return s
		}
	}
	s.early = true
	return s
}
