package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// measureFleets writes FLEET.md into a folder, or prints it.
func measureFleets(ctx context.Context, folder string) error {
	s, err := openServer(ctx)
	if err != nil {
		return err
	}
	machine, err := s.machine(runtime.NumCPU(), runtime.Version())
	s.close()
	if err != nil {
		return err
	}
	text, err := fleetReport(ctx, machine, []int{1_000, 5_000, 9_000})
	if err != nil {
		return err
	}
	if folder == "" {
		_, err := fmt.Print(text)
		return err
	}
	return os.WriteFile(filepath.Join(folder, "FLEET.md"), []byte(text), 0o644)
}

// fleetReport measures the fleets and returns the page about them.
func fleetReport(ctx context.Context, machine string, sizes []int) (string, error) {
	const lease = 10 * time.Second
	idle, err := idleCPU(ctx, lease)
	if err != nil {
		return "", err
	}
	few, err := fleet{clients: 600, held: 10, lease: lease}.measure(ctx)
	if err != nil {
		return "", err
	}
	many, err := fleet{clients: 600, held: 50, lease: lease}.measure(ctx)
	if err != nil {
		return "", err
	}
	m := modelOf(few, many, idle)
	var runs []fleetRun
	for _, connections := range sizes {
		run, err := fleet{clients: int(float64(connections) / m.connections), held: 20, lease: lease}.measure(ctx)
		if err != nil {
			return "", fmt.Errorf("%d connections: %w", connections, err)
		}
		runs = append(runs, run)
	}
	return m.markdown(machine, idle, few, runs), nil
}

// idleCPU returns what a server without clients uses, in cores.
func idleCPU(ctx context.Context, d time.Duration) (float64, error) {
	s := &server{stop: func() {}}
	if err := s.start(ctx); err != nil {
		return 0, err
	}
	defer func() { s.stop() }()
	var err error
	if s.rc, err = rueidisClient(s.addr); err != nil {
		return 0, err
	}
	defer s.rc.Close()
	before := s.mustProbe()
	if err := sleep(ctx, d); err != nil {
		return 0, err
	}
	after := s.mustProbe()
	return (after.cpu - before.cpu).Seconds() / after.at.Sub(before.at).Seconds(), nil
}

// markdown writes the page.
func (m fleetModel) markdown(machine string, idle float64, few fleetRun, runs []fleetRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Fleets

%s. Written by `+"`make fleet`"+`. Each client holds locks that are renewed, with a watchdog time of %v, and has one goroutine that waits for a lock of
another client. All clients are in one program; the server is another. Time and memory are the server's, unless a row says otherwise.

## What one client and one lock cost

The constants of the model, from two fleets of %d clients with %d and 50 locks each.

`, machine, m.lease, few.clients, few.held)
	row(&b, "", "a client", "a lock")
	rule(&b, 3)
	row(&b, "connections", fmt.Sprintf("%.2f", m.connections), "0")
	row(&b, "memory", bytesOf(m.memory), bytesOf(m.lockMemory))
	row(&b, "commands a second at rest", fmt.Sprintf("%.3f", m.commands), fmt.Sprintf("%.4f", m.lockCommands))
	row(&b, "CPU a second at rest", microseconds(m.cpu*1e6), microseconds(m.lockCPU*1e6))
	row(&b, "CPU for connecting", microseconds(float64(m.opening)/1e3), "0")
	row(&b, "CPU for connecting and subscribing again after all connections ended", microseconds(float64(m.storm)/1e3), microseconds(float64(m.lockStorm)/1e3))
	row(&b, "heap of the client, with its share of the locks", bytesOf(few.clientHeap), "")

	b.WriteString("\n## The model beside fleets that were measured\n\n")
	b.WriteString("A cell has the model's figure, and the measured one. The model holds where they differ by at most 25 %.\n\n")
	head := []string{""}
	for _, r := range runs {
		head = append(head, fmt.Sprintf("%d clients of %d locks, %.0f connections", r.clients, r.held, r.connections))
	}
	row(&b, append(head, "holds")...)
	rule(&b, len(head)+1)
	compare := func(name string, value func(fleetRun) float64, format func(float64) string) {
		cells, holds := []string{name}, "yes"
		for _, r := range runs {
			predicted, measured := value(m.predict(r.fleet, idle)), value(r)
			cells = append(cells, format(predicted)+" / "+format(measured))
			if !within(predicted, measured) {
				holds = "**no**"
			}
		}
		row(&b, append(cells, holds)...)
	}
	compare("connections", func(r fleetRun) float64 { return r.connections }, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	compare("memory", func(r fleetRun) float64 { return r.memory }, bytesOf)
	compare("commands a second at rest", func(r fleetRun) float64 { return r.commands }, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	compare("cores at rest", func(r fleetRun) float64 { return r.cpu }, func(v float64) string { return fmt.Sprintf("%.3f", v) })
	compare("CPU for connecting", func(r fleetRun) float64 { return r.opening.Seconds() }, func(v float64) string { return fmt.Sprintf("%.2f s", v) })
	compare("CPU for connecting again", func(r fleetRun) float64 { return r.storm.Seconds() }, func(v float64) string { return fmt.Sprintf("%.2f s", v) })

	b.WriteString("\nMeasured only:\n\n")
	row(&b, head...)
	rule(&b, len(head))
	only := func(name string, value func(fleetRun) string) {
		cells := []string{name}
		for _, r := range runs {
			cells = append(cells, value(r))
		}
		row(&b, cells...)
	}
	only("PINGs a second at rest", func(r fleetRun) string { return fmt.Sprintf("%.0f", r.pings) })
	only("all subscribed again after all connections ended", func(r fleetRun) string { return r.stormTook.Round(10 * time.Millisecond).String() })
	only("longest PING meanwhile", func(r fleetRun) string { return r.longestPing.Round(time.Millisecond).String() })
	only("leases lost", func(r fleetRun) string { return fmt.Sprint(r.lost) })
	only("CPU of the server for one hand-over", func(r fleetRun) string { return microseconds(float64(r.handing) / float64(r.clients) / 1e3) })
	only("cores of all clients at rest", func(r fleetRun) string { return fmt.Sprintf("%.3f", r.clientCPU) })
	only("heap of a client", func(r fleetRun) string { return bytesOf(r.clientHeap) })

	b.WriteString("\n## Larger fleets, by the model\n\n")
	fmt.Fprintf(&b, "With the default watchdog time of 30 s, on one server.\n\n")
	row(&b, "clients", "locks of each", "connections", "memory", "commands a second", "cores at rest", "connecting again", "what breaks first")
	rule(&b, 8)
	for _, f := range []fleet{{100, 100, 0}, {1_000, 100, 0}, {1_000, 1_000, 0}, {10_000, 10, 0}, {10_000, 100, 0}} {
		f.lease = 30 * time.Second
		r := m.predict(f, idle)
		row(&b, fmt.Sprint(f.clients), fmt.Sprint(f.held), fmt.Sprintf("%.0f", r.connections), bytesOf(r.memory),
			fmt.Sprintf("%.0f", r.commands), fmt.Sprintf("%.2f", r.cpu), r.storm.Round(100*time.Millisecond).String(), r.breaksFirst())
	}
	return b.String()
}

func bytesOf(v float64) string {
	switch {
	case v >= 1<<30:
		return fmt.Sprintf("%.2f GB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MB", v/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KB", v/(1<<10))
	}
	return fmt.Sprintf("%.0f B", v)
}

func microseconds(v float64) string { return fmt.Sprintf("%.2f µs", v) }
