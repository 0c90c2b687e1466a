package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFleetModel makes two runs from known constants, and finds the constants again.
func TestFleetModel(t *testing.T) {
	const (
		idle    = 0.002
		clients = 100
	)
	run := func(held int) fleetRun {
		return fleetRun{
			fleet:       fleet{clients: clients, held: held, lease: 10 * time.Second},
			connections: 4 * clients,
			memory:      clients*50_000 + float64(clients*held)*200,
			commands:    clients*3.5 + float64(clients*held)*0.01,
			cpu:         idle + clients*40e-6 + float64(clients*held)*3e-6,
			opening:     clients * 300 * time.Microsecond,
			storm:       clients*500*time.Microsecond + time.Duration(clients*held)*time.Microsecond,
		}
	}
	m := modelOf(run(10), run(50), idle)
	require.InDelta(t, 50_000, m.memory, 1e-3)
	require.InDelta(t, 200, m.lockMemory, 1e-6)
	require.InDelta(t, 3.5, m.commands, 1e-9)
	require.InDelta(t, 0.01, m.lockCommands, 1e-9)
	require.InDelta(t, 40e-6, m.cpu, 1e-12)
	require.InDelta(t, 3e-6, m.lockCPU, 1e-12)

	again := m.predict(fleet{clients: clients, held: 50, lease: 10 * time.Second}, idle)
	require.InDelta(t, run(50).cpu, again.cpu, 1e-12)
	require.Equal(t, run(50).storm, again.storm)
	require.Equal(t, time.Microsecond, m.lockStorm)

	third := m.predict(fleet{clients: clients, held: 50, lease: 30 * time.Second}, idle)
	require.InDelta(t, clients*3.5+clients*50*0.01/3, third.commands, 1e-9, "locks are renewed a third as often, connections checked as often")

	large := m.predict(fleet{clients: 10_000, held: 100, lease: 30 * time.Second}, idle)
	require.Equal(t, "maxclients (10000 by default), at 2500 clients", large.breaksFirst())
	small := m.predict(fleet{clients: 100, held: 1, lease: 30 * time.Second}, idle)
	require.Equal(t, "nothing; maxclients (10000 by default) is used to 4 %", small.breaksFirst())
	many := m.predict(fleet{clients: 1_000, held: 2_000, lease: 30 * time.Second}, idle)
	require.Equal(t, "the one core of a server, at 490 clients", many.breaksFirst())
}

func TestFleet_Within(t *testing.T) {
	require.True(t, within(100, 100))
	require.True(t, within(75, 100))
	require.True(t, within(125, 100))
	require.False(t, within(74, 100))
	require.False(t, within(126, 100))
}

// TestFleet_IsMeasured runs a small fleet, of which every figure is positive but the leases that are lost.
func TestFleet_IsMeasured(t *testing.T) {
	run, err := fleet{clients: 5, held: 3, lease: 3 * time.Second}.measure(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, run.connections, 10.0, "at least two connections for each client")
	for name, value := range map[string]float64{
		"opening": run.opening.Seconds(), "locking": run.locking.Seconds(), "memory": run.memory, "commands": run.commands,
		"cpu": run.cpu, "storm": run.stormTook.Seconds(), "ping": run.longestPing.Seconds(),
	} {
		require.Positive(t, value, name)
	}
}
