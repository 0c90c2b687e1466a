package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// comparedAt is the time of the clients whose calls are compared.
var comparedAt = time.Now()

// comparedProcesses are the clients.
var comparedProcesses = func() (all []*protocol.Process) {
	for i := range 3 {
		p := protocol.NewProcess(fmt.Sprintf("00000000-0000-8000-8000-00000000000%d", i), protocol.PublishPlain, 10*time.Minute, 30*time.Second)
		all = append(all, &p)
	}
	return all
}()

// randomCommand returns what a client says of a fair lock, a read-write lock or permits: few of each, so that they meet.
func randomCommand(r *rand.Rand) (*scripts.Script, []string) {
	p := comparedProcesses[r.IntN(len(comparedProcesses))]
	name := []string{"a", "b"}[r.IntN(2)]
	fair, rw, permits := p.Fair("f"+name), p.RW("w"+name), p.PermitSemaphore("p"+name)
	n, lease := uint64(1+r.IntN(3)), time.Duration(60_000+r.IntN(1000))*time.Millisecond
	at := comparedAt.Add(time.Duration(r.IntN(3)) * time.Second)
	wait := []time.Duration{time.Minute, 2 * time.Minute}[r.IntN(2)]
	queue := []protocol.Queueing{protocol.NotQueued, protocol.Queued, protocol.StillQueued}[r.IntN(3)]
	request := protocol.Request{Number: uint64(r.IntN(40)), Oldest: uint64(r.IntN(20)), Keep: 2 * time.Minute}
	writes := r.IntN(2) == 0
	departures := []protocol.Departure{{Number: n, Wait: wait}}[:r.IntN(2)]
	id := func() string { return fmt.Sprintf("permit-%09d", r.IntN(8)) }
	words := func(c protocol.Command) (*scripts.Script, []string) {
		return c.Script, append(append([]string{fmt.Sprint(len(c.Keys))}, c.Keys...), c.Args...)
	}
	var stay protocol.Stay // nobody waits for a read-write lock: whose turn it is depends on the clock, within half a second
	switch r.IntN(15) {
	case 0, 1, 2:
		return words(fair.Acquire(protocol.FairRequest{Owner: p.Owner(n), Queue: queue, Lease: lease, Wait: wait, Hears: r.IntN(2) == 0, Tokens: r.IntN(2)}, at))
	case 3:
		return words(fair.Release(p.Owner(n), wait, at, departures))
	case 4:
		return words(fair.Leave(departures, at))
	case 5:
		return words(fair.ForceUnlock(at))
	case 6, 7:
		return words(rw.Read(rw.Field(n, false), "", stay, lease))
	case 8, 9:
		return words(rw.Write(rw.Field(n, true), stay, r.IntN(2), lease))
	case 10:
		return words(rw.Release(rw.Field(n, writes)))
	case 11:
		return words(rw.ForceUnlock(writes))
	case 12:
		var wants []protocol.Permits
		for range r.IntN(3) {
			wants = append(wants, protocol.Permits{IDs: id(), Lease: lease})
		}
		return words(permits.AcquirePermits(protocol.Round{Request: request, Again: r.IntN(2) == 0, Create: 3}, wants))
	case 13:
		return words(permits.Release(id(), protocol.MissingOf(r.IntN(2))))
	}
	return words(permits.Count(3))
}
