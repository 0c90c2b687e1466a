package ctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockgen/lockgen/internal/survey"
)

// mostOrphans is how many keys the search for orphans reads.
const mostOrphans = 100_000

// orphans searches for wait queues with processes that do not listen any more.
func (o *options) orphans(ctx context.Context) (Finding, error) {
	alive := map[string]bool{}
	for _, node := range o.rc.Nodes() {
		names, err := node.Do(ctx, node.B().PubsubChannels().Pattern("lockgen_process:*").Build()).AsStrSlice()
		if err != nil {
			return Finding{}, err
		}
		for _, name := range names {
			alive[strings.TrimPrefix(name, "lockgen_process:")[:min(36, len(name)-len("lockgen_process:"))]] = true
		}
	}
	var gone []string
	seen := 0
	for _, addr := range sortedKeys(o.rc.Nodes()) {
		node := o.rc.Nodes()[addr]
		if isReplica(ctx, node) {
			continue
		}
		for cursor := uint64(0); seen < mostOrphans; {
			entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match("lockgen_waiting:*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return Finding{}, err
			}
			seen += 1000
			for _, key := range entry.Elements {
				places, err := o.rc.Do(ctx, o.rc.B().Lrange().Key(key).Start(0).Stop(survey.MostFields-1).Build()).AsStrSlice()
				if err != nil {
					return Finding{}, err
				}
				for _, p := range places {
					if len(p) >= 36 && !alive[p[:36]] {
						gone = append(gone, key)
						break
					}
				}
			}
			if cursor = entry.Cursor; cursor == 0 {
				break
			}
		}
	}
	if len(gone) == 0 {
		return Finding{"", "orphans", stateOK, "no process that is gone stands in a wait queue", ""}, nil
	}
	return Finding{"", "orphans", stateNote,
		fmt.Sprintf("processes that are gone stand in %s, as %s", count(len(gone), "wait queue", "wait queues"), gone[0]),
		"nothing: they are passed over at the next release, and the queue expires"}, nil
}
