package survey

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Others are the permits of a semaphore that no process names: those of Java programs, and of processes that do not answer or are gone. They are
// counted if calls wait for permits, or if a person has named the key.
type Others struct {
	Permits int  `json:"others,omitempty"`         // with time left
	AtMost  bool `json:"others_at_most,omitempty"` // some of them may have no time left
}

// mostOver is how many permits whose time is over are read: the next call that wants a permit takes these away.
const mostOver = 4096

// CountPermits counts the permits that no process names, of the semaphores of a site that calls wait for. A server that does not answer within
// the time patience may have one. CountPermits reports false if rc is closed: another client of the site may count them.
func (w *World) CountPermits(ctx context.Context, rc rueidis.Client, site string, patience time.Duration) (counts bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return countUnnamed(ctx, rc, w.semaphores(func(l *Lock) bool { return len(l.Waiters) > 0 && l.Site == site }))
}

// semaphores returns the semaphores among the locks that is reports.
func (w *World) semaphores(is func(l *Lock) bool) (all []*Lock) {
	for _, l := range w.Locks {
		if l.Kind == string(lockrt.KindPermit) && is(l) {
			all = append(all, l)
		}
	}
	return all
}

func countUnnamed(ctx context.Context, rc rueidis.Client, of []*Lock) (counts bool) {
	var asks rueidis.Commands
	for _, l := range of {
		asks = append(asks, rc.B().Zcard().Key(PermitLeases(l.Key)).Build())
	}
	counts = true
	for i, reply := range ask(ctx, rc, asks) {
		l := of[i]
		n, err := reply.AsInt64()
		counts = counts && !errors.Is(err, rueidis.ErrClosing)
		_, refused := rueidis.IsRedisErr(err) // it may not be permitted
		l.unnamed, l.uncounted = int(n), err != nil && !refused
		for _, h := range l.Holders {
			l.unnamed -= h.Holds
		}
		l.unnamed = max(0, l.unnamed)
	}
	return counts
}

// countOthers has the Others of some semaphores, within the time patience.
func countOthers(ctx context.Context, rc rueidis.Client, of []*Lock, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	countUnnamed(ctx, rc, of)
	var some []*Lock
	for _, l := range of {
		if l.unnamed > 0 {
			some = append(some, l)
		}
	}
	if len(some) == 0 {
		return
	}
	for _, l := range some {
		l.Others = Others{Permits: l.unnamed, AtMost: true}
	}
	now, known := serverTime(ctx, rc)
	if !known {
		return
	}
	var asks rueidis.Commands
	for _, l := range some {
		asks = append(asks, rc.B().Zrange().Key(PermitLeases(l.Key)).Min("-inf").Max(now).Byscore().Limit(0, mostOver).Build())
	}
	for i, reply := range ask(ctx, rc, asks) {
		if over, err := reply.AsStrSlice(); err == nil { // it may not be permitted
			some[i].Others = Others{Permits: max(0, some[i].unnamed-len(over)), AtMost: len(over) == mostOver}
		}
	}
}

// serverTime returns the time of the server that says it first, in milliseconds. The leases of permits end by it.
func serverTime(ctx context.Context, rc rueidis.Client) (now string, known bool) {
	nodes := rc.Nodes()
	said := make(chan string, len(nodes))
	for _, node := range nodes {
		go func() {
			words, err := node.Do(ctx, node.B().Time().Build()).AsStrSlice()
			if err != nil || len(words) < 2 {
				said <- ""
				return
			}
			micros, _ := strconv.Atoi(words[1])
			said <- words[0] + strconv.Itoa(1000 + micros/1000)[1:]
		}()
	}
	for range nodes {
		if now := <-said; now != "" {
			return now, true
		}
	}
	return "", false
}

// readSemaphore adds the semaphore with a key that no process names, if it has permits that are taken.
func (w *World) readSemaphore(ctx context.Context, rc rueidis.Client, key string, patience time.Duration) error {
	var n int64
	for _, reply := range rc.DoMulti(ctx, rc.B().Strlen().Key(key).Build(), rc.B().Zcard().Key(PermitLeases(key)).Build()) {
		var err error
		n, err = reply.AsInt64()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
			return err
		}
		if err != nil || n == 0 { // it is no number of permits, or no permit is taken
			return nil
		}
	}
	l := w.Lock(key, string(lockrt.KindPermit))
	switch countOthers(ctx, rc, []*Lock{l}, patience); {
	case l.uncounted: // since a moment ago the server does not answer
		l.Others = Others{Permits: int(n), AtMost: true}
	case l.Others.Permits == 0:
		delete(w.Locks, key)
	}
	return nil
}
