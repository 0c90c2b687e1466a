package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profile writes the CPU profile until it is stopped, and the allocations so far, if the order asks for profiles.
func (w *worker) profile() (stop func() error, err error) {
	if w.order.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := w.create("cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), w.write("allocs"))
	}, nil
}

// write writes a profile that the program always has, if the order asks for profiles.
func (w *worker) write(name string) error {
	if w.order.Profile == "" {
		return nil
	}
	f, err := w.create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}

// create makes the file of a profile of this process. A later one of the same kind replaces it.
func (w *worker) create(name string) (*os.File, error) {
	return os.Create(filepath.Join(w.order.Profile, fmt.Sprintf("%d.%s", os.Getpid(), name)))
}
