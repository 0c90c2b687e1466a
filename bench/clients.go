package main

import (
	"context"
	"fmt"
)

// mostClients is how many clients want one key in S19.
const mostClients = 300

// manyClients makes many clients of one process, each with a goroutine, lock one key, for four times as long as other runs
// take: each of them is to have its turn.
func manyClients(ctx context.Context, e *env, lib library) (metrics, error) {
	own := *e
	own.length = 4 * e.length
	n := min(mostClients, e.held)
	return cycles(party{goroutines: n, clients: n, shared: true})(ctx, &own, lib)
}

func clientScenarios() []*scenario {
	return []*scenario{{
		id: "S18", title: "Many locks, held and renewed in a cluster of three", fit: func(lib library) bool { return lib.name == lockgen },
		how: "As S6, with a lease of 5 s. Each key is in a slot of its own, and a script handles keys of one slot: so a renewal is a command for each key, and many of them go together. Commands, reads from connections and CPU are those of one of the servers.",
		run: holdingInCluster, headline: headline{metric: "commands", format: tenth, unit: " commands/s", lowest: true, needs: "lost"},
		columns: []column{{"commands/s", "commands", tenth}, {"reads/s", "reads", tenth}, {"heap", "heap", count}, {"stack", "stack", count}, {"goroutines", "goroutines", hundredth},
			{"client CPU %", "client%", hundredth}, {"Redis CPU %", "server%", hundredth}, {"all taken after", "acquire", duration}, {"lost", "lost", count}},
		goals: []goal{
			{"none lost", worst("lost"), 0, false, count},
			{"no goroutine for a lock", value("goroutines"), 0.01, false, hundredth},
		},
	}, {
		id: "S19", title: fmt.Sprintf("%d clients, one RWMutex, which each locks for writing", mostClients), of: writing,
		fit:    func(lib library) bool { return lib.name == lockgen || lib.name == writing },
		how:    "Each client has one goroutine and its own connections; all are in one process. lockgen is its Mutex. A run takes four times as long as others. " + announcing + ": each unlock is published on the channel of the key, to which all clients listen, as those of Redisson and the waiters of an RWMutex do; the process decides which client is next, and each client calls the two smallest scripts once for its turn.",
		floors: []string{announcing}, run: manyClients, headline: headline{metric: "rate", format: count, unit: "/s"}, columns: sharedColumns,
		goals: []goal{
			{"at least 300 grants a second", value("rate"), 300, true, count},
			{"each client is served", worst("never"), 0, false, count},
			{"nobody hangs", worst("stuck"), 0, false, count},
		},
	}}
}
