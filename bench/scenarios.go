package main

import (
	"fmt"
	"strconv"
)

// The columns that several tables have.
var (
	colRate    = column{"per second", "rate", count}
	colFloor   = column{"of the floor", "", hundredth} // a ratio of rates
	colP50     = column{"p50", "p50", duration}
	colP99     = column{"p99", "p99", duration}
	colLongest = column{"longest", "longest", duration}
	colSent    = column{"commands", "sent", small}
	colCalled  = column{"called by scripts", "called", small}
	colAllocs  = column{"allocs", "allocs", tenth}
	colBytes   = column{"bytes", "bytes", count}
	colClient  = column{"client CPU", "client", duration}
	colServer  = column{"Redis CPU", "server", duration}
	colJain    = column{"Jain", "jain", hundredth}
	colNever   = column{"never got it", "never", count}
	colStuck   = column{"stuck", "stuck", count}
)

var (
	aloneColumns  = []column{colRate, colFloor, colP50, colP99, colLongest, colSent, colCalled, colAllocs, colBytes, colClient, colServer, colStuck}
	sharedColumns = []column{colRate, colJain, colP50, colP99, colLongest, colSent, colAllocs, colBytes, colClient, colServer, colNever, colStuck}
)

const howAlone = "Every goroutine takes 16 keys in turn that nobody else wants. All columns but the first two are for one cycle: a lock and an unlock."

const howFloors = " " + gathering + ": requests that come while a script is under way go together in the next one, which is what serves a crowd; each goes through one goroutine more. " + cancellable + ": each call has a context that can end, as one needs that is sent again over another connection when its answer is late." + howPromised

const howPromised = " " + promising + ": the scripts check what a lock of this layout has to check, and publish each unlock as Redisson's waiters need it; each hold has an owner of its own and is noted; a caller that is alone sends on its own goroutine, others share scripts, whose senders take turns: while the server runs one, the client answers the one before, gathers the requests that come then, and sends the next one."

const howInFull = " " + straight + ": as " + promising + ", but callers share no scripts, and each call has a context that can end. " + inFull + ": " + promising + " with what a lock needs since somebody else may want the key at any moment: a line of goroutines for each key, a place in the queue of renewals, a context that a lost lease would end, trust that ends with the time, and an unlock that ends in time."

const howHeld = "One process takes {held} locks with a lease of 10 s, then looks on for {rest}. Memory and goroutines are for each lock, half a second after the last one was taken. redislock and redsync do not renew, so theirs expire, which they do not notice; they are looked at for 3 s at most and not compared. " + holdingFloor + ": a lock that is held and renewed, with its place in two maps and in the queue of renewals, over a connection on which the server reports changes of its key, and nothing else."

var heldColumns = []column{{"heap", "heap", count}, {"stack", "stack", count}, {"goroutines", "goroutines", hundredth}, {"commands/s", "commands", tenth},
	{"called by scripts/s", "calledRest", count}, {"client CPU %", "client%", hundredth}, {"Redis CPU %", "server%", hundredth}, {"all taken after", "acquire", duration}, {"lost", "lost", count}}

func allScenarios() []*scenario {
	all := []*scenario{{
		id: "S1", title: "One goroutine, keys that nobody else wants", how: howAlone + howPromised, fit: anybody, floors: []string{promising},
		run: cycles(party{goroutines: 1}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
		goals: []goal{
			{"at least 1.2 of the floor's cycles", ofFloor("rate"), 1.2, true, hundredth},
			{"ahead of every other library", ofBest("rate"), 1, true, times},
			{"p99 no worse than that of the best of them", func(t *table) spread {
				return t.ratio(lockgen, t.best(headline{metric: "p99", lowest: true}), "p99")
			}, 1, false, times},
			{"at most 6 allocations beyond the floor's", beyond, 6, false, tenth},
		},
	}}
	for _, g := range []int{16, 64, 256, 1024, 4096} {
		least := map[int]float64{256: 1.5, 1024: 1.4}[g] // a crowd shares requests
		if least == 0 {
			least = 1
		}
		all = append(all, &scenario{
			id: "S2", point: strconv.Itoa(g), title: fmt.Sprintf("%d goroutines, keys that nobody else wants", g), how: howAlone + howFloors + howInFull, fit: anybody, floors: []string{gathering, cancellable, promising, straight, inFull},
			run: cycles(party{goroutines: g}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least " + tenth(least) + " of the floor's cycles", ofFloor("rate"), least, true, hundredth},
				{"ahead of every other library", ofBest("rate"), 1, true, times},
				{"client and server together use at most 1.1 of the floor's CPU for a cycle", cpu, 1.1, false, hundredth},
				{"nobody hangs", worst("stuck"), 0, false, count},
			},
		})
	}
	for _, g := range []int{16, 100, 1000} {
		all = append(all, &scenario{
			id: "S3", point: strconv.Itoa(g), title: fmt.Sprintf("%d goroutines of one process, one key", g), fit: whoLocks,
			how: "They do nothing while they hold it. Figures are for one acquisition; the waits include those that were still on at the end.",
			run: cycles(party{goroutines: g, shared: true}), columns: sharedColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least 50x the acquisitions of the best other library", ofBest("rate"), 50, true, times},
				{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
				{"nobody starves", worst("never"), 0, false, count},
				{"at most 0.05 commands for an acquisition", value("sent"), 0.05, false, small},
				{"nobody waits longer than 20 ms", worst("longest"), 20e6, false, duration},
			},
		})
	}
	four := make([]party, 4)
	for i := range four {
		four[i] = party{goroutines: 8, shared: true}
	}
	both := append([]column{colRate, {"Jain of processes", "processes", hundredth}}, sharedColumns[1:]...)
	all = append(all,
		&scenario{
			id: "S4", title: "4 processes of 8 goroutines, one key", fit: whoLocks, floors: []string{takingTurns},
			how: "As S3. " + takingTurns + ": the goroutines of a process pass the key on among themselves, first come, first served, " + strconv.Itoa(turnLength) + " times; then one script gives it to the next process, sends that a message and stands in the wait queue again. There is nothing else.",
			run: cycles(four...), columns: both, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least 25x the acquisitions of the best other library", ofBest("rate"), 25, true, times},
				{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
				{"Jain's index of the processes at least 0.99", value("processes"), 0.99, true, thousandth},
				{"nobody waits longer than 25 ms", worst("longest"), 25e6, false, duration},
			},
		},
		&scenario{
			id: "S4b", title: "The polite neighbour: a busy process of 100 goroutines, and one goroutine in another that pauses", fit: whoLocks, floors: []string{undisturbed, sharing, looking},
			how: "It pauses for 10 ms after each turn, so it can have 100 a second at most. The waits are its own. A run takes four times as long as others: in a short one, one turn more or less is two a second. " + undisturbed + ": no key is shared. The goroutines of the busy process pass on a key among themselves, and the one of the other process calls the floor's scripts for a key of its own. So that is what the machine leaves it beside a busy process. " + sharing + ": the processes hand the key over as " + passing + " of S5 does, and the goroutines of one pass it on among themselves until a message says that the other process wants it; the busy process also asks the server each 500 µs. " + looking + ": as " + sharing + ", but each process looks once, 8 ms after it got the key, whether it still has it, as it has to if it is to learn within 10 ms that the key was deleted. By then the one goroutine has unlocked long ago, and pauses: the timer wakes its process, and Go then waits for the rest of the pause in whole milliseconds.",
			run: neighbours, headline: headline{metric: "lone", format: tenth, unit: "/s"},
			columns: []column{{"its turns per second", "lone", tenth}, colP50, colP99, colLongest, {"the busy one's", "rate", count}, colSent, colStuck},
			goals: []goal{
				{"at least 93 turns a second", value("lone"), 93, true, tenth},
				{"p99 at most 2.5 ms", value("p99"), 2.5e6, false, duration},
				{"the busy side has at least 20x the acquisitions of the best other library's", ofBest("rate"), 20, true, times},
			},
		},
		&scenario{
			id: "S5", title: "From one process to another: unlocked there, held here", fit: whoLocks, floors: []string{passing},
			how: passing + ": one script unlocks, gives the key to the first of the wait queue and publishes that to its process, on the connection of which one goroutine reads; there is nothing else. As a multiple of a PING round trip in the same run: of one that is sent after a pause, as the unlock is, and of one right after it.",
			run: handOver, headline: headline{metric: "pings", format: tenth, unit: " PINGs", lowest: true},
			columns: []column{{"median, PINGs", "pings", hundredth}, {"p99, PINGs", "pings99", hundredth}, {"median, PINGs right after another", "pingsAgain", hundredth},
				colP50, colP99, {"PING", "ping", duration}, {"PING right after another", "again", duration}},
			goals: []goal{
				{"median at most 2.4 PINGs", value("pings"), 2.4, false, hundredth},
				{"p99 at most 8 PINGs", value("pings99"), 8, false, hundredth},
			},
		},
		&scenario{
			id: "S6", title: "Many locks, held and renewed", fit: whoLocks, floors: []string{holdingFloor}, how: howHeld,
			run: holding(1), headline: headline{metric: "memory", format: count, unit: " bytes", lowest: true, needs: "lost"}, columns: heldColumns,
			goals: []goal{
				{"no goroutine for a lock", value("goroutines"), 0.01, false, hundredth},
				{"at most 400 bytes for a lock", value("memory"), 400, false, count},
				{"at most 20 commands a second", value("commands"), 20, false, tenth},
				{"at most 1 % of a core in the client", value("client%"), 1, false, hundredth},
				{"at most 1.2 % of a core in Redis", value("server%"), 1.2, false, hundredth},
				{"all of them taken within 0.15 s", value("acquire"), 150e6, false, duration},
				{"none lost", worst("lost"), 0, false, count},
			},
		},
		&scenario{
			id: "S6", point: "tenfold", title: "Ten times as many locks", fit: func(lib library) bool { return lib.name == lockgen }, floors: []string{holdingFloor}, how: howHeld,
			run: holding(10), headline: headline{metric: "memory", format: count, unit: " bytes", lowest: true, needs: "lost"}, columns: heldColumns,
			goals: []goal{
				{"no goroutine for a lock", value("goroutines"), 0.01, false, hundredth},
				{"at most 400 bytes for a lock", value("memory"), 400, false, count},
				{"at most 200 commands a second", value("commands"), 200, false, tenth},
				{"at most 10 % of a core in the client", value("client%"), 10, false, hundredth},
				{"at most 12 % of a core in Redis", value("server%"), 12, false, hundredth},
				{"all of them taken within 1.5 s", value("acquire"), 1500e6, false, duration},
				{"none lost", worst("lost"), 0, false, count},
			},
		},
		&scenario{
			id: "S7", title: "Many goroutines that wait, each for a lock of its own", fit: whoLocks, floors: []string{passing, waitingFloor},
			how: "{held} goroutines of one process wait for as many locks that another process holds. Nothing happens for {waits}, or for 3 s with redislock and redsync, which ask at intervals; then all are released. Memory is for each waiter, with its goroutine. All are served counts from the first release, and from when the last unlock had returned. " + passing + ": as in S5, for many keys: of each wait there is the goroutine, a channel, and the place of that in a map. " + waitingFloor + ": each waiter has a place of its own in the wait queue, by whose number a message finds it; it asks again after 30 s, with others, and has a lease when it is served.",
			run: waiting, headline: headline{metric: "served", format: duration, lowest: true},
			columns: []column{{"commands/s at rest", "commands", tenth}, {"client CPU %", "client%", hundredth}, {"Redis CPU %", "server%", hundredth}, {"heap", "heap", count}, {"stack", "stack", count},
				{"its connections", "connections", count}, {"channels of both", "channels", count}, {"all served after", "served", duration}, {"after the last release", "servedAfter", duration}, {"not served", "forgotten", count}},
			goals: []goal{
				{"one connection for commands and one for messages", value("connections"), 2, false, count},
				{"one channel for each process", value("channels"), 2, false, count},
				{"at most 1 KiB of heap for a waiter", value("heap"), 1024, false, count},
				{"at most 5 commands a second at rest", value("commands"), 5, false, tenth},
				{"all served within 0.2 s of the first release", value("served"), 200e6, false, duration},
				{"nobody forgotten", worst("forgotten"), 0, false, count},
			},
		},
	)
	all = append(all, severalScenarios()...)
	all = append(all, everydayScenarios()...)
	all = append(all,
		&scenario{
			id: "S9", title: "Locking again what one holds", fit: func(lib library) bool { return lib.reenters },
			how: "One goroutine, under the context of its lease; the others cannot. Readers do nothing meanwhile.",
			run: reentering, headline: headline{metric: "each", format: duration, lowest: true},
			columns: []column{{"each", "each", duration}, colAllocs, colBytes, {"commands", "sent", small}},
			goals: []goal{
				{"at most 150 ns", value("each"), 150, false, duration},
				{"at most 1 allocation", value("allocs"), 1.01, false, hundredth},
				{"no command", value("sent"), 0.001, false, small},
			},
		})
	for _, more := range []func() []*scenario{familyScenarios, observedScenarios, operatorScenarios, lingerScenarios, clientScenarios} {
		all = append(all, more()...)
	}
	return all
}
