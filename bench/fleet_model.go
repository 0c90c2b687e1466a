package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A fleetModel is what one client and one held lock cost.
type fleetModel struct {
	connections, memory, commands, cpu float64 // of one client
	lockMemory, lockCommands, lockCPU  float64 // of one lock
	opening, storm, lockStorm          time.Duration
	lease                              time.Duration
}

// modelOf returns the model that explains two runs with as many clients, of which the second holds more locks. idle is what a
// server without clients uses.
func modelOf(few, many fleetRun, idle float64) fleetModel {
	clients := float64(few.clients)
	locks := clients * float64(many.held-few.held)
	m := fleetModel{
		lease:        few.lease,
		lockMemory:   (many.memory - few.memory) / locks,
		lockCommands: max(0, (many.commands-few.commands)/locks), // a batch of renewals is one
		lockCPU:      (many.cpu - few.cpu) / locks,
		opening:      (few.opening + many.opening) / time.Duration(2*few.clients),
		lockStorm:    (many.storm - few.storm) / time.Duration(locks),
		connections:  few.connections / clients,
	}
	held := float64(few.held)
	m.memory = few.memory/clients - held*m.lockMemory
	m.commands = few.commands/clients - held*m.lockCommands
	m.cpu = (few.cpu-idle)/clients - held*m.lockCPU
	m.storm = few.storm/time.Duration(few.clients) - time.Duration(few.held)*m.lockStorm
	return m
}

// predict says what another fleet costs. Leases that are longer are renewed more rarely; what a client costs besides, which is mostly
// its PINGs, does not depend on them.
func (m fleetModel) predict(f fleet, idle float64) fleetRun {
	clients, locks := float64(f.clients), float64(f.clients*f.held)
	rate := float64(m.lease) / float64(f.lease)
	return fleetRun{
		fleet:       f,
		connections: clients * m.connections,
		memory:      clients*m.memory + locks*m.lockMemory,
		commands:    clients*m.commands + rate*locks*m.lockCommands,
		cpu:         idle + clients*m.cpu + rate*locks*m.lockCPU,
		opening:     time.Duration(f.clients) * m.opening,
		storm:       time.Duration(f.clients)*m.storm + time.Duration(f.clients*f.held)*m.lockStorm,
	}
}

// breaksFirst names what a server with the default settings has too little of, of one kind of resource each, worst first.
func (r fleetRun) breaksFirst() string {
	type bound struct {
		share float64
		text  string
	}
	bounds := []bound{
		{r.connections / maxClients, fmt.Sprintf("maxclients (%d by default)", maxClients)},
		{r.cpu, "the one core of a server"},
		{r.storm.Seconds() / stormBound.Seconds(), fmt.Sprintf("reconnecting within %v", stormBound)},
	}
	worst := slices.MaxFunc(bounds, func(a, b bound) int { return cmp.Compare(a.share, b.share) })
	if worst.share < 1 {
		return fmt.Sprintf("nothing; %s is used to %.0f %%", worst.text, 100*worst.share)
	}
	return fmt.Sprintf("%s, at %.0f clients", worst.text, float64(r.clients)/worst.share)
}

const (
	maxClients = 10_000           // Redis' default
	stormBound = 10 * time.Second // a third of the default watchdog time: after that, leases are at risk
)

// within reports whether the model's figure is at most a quarter off the measured one.
func within(predicted, measured float64) bool {
	return predicted >= 0.75*measured && predicted <= 1.25*measured
}
