package tracetest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A StepWriter writes the steps of a process into a file, each before the process goes on, so that they outlive a process that is killed.
type StepWriter struct {
	mu   sync.Mutex
	file *os.File
	stop func()
	left int
	err  error
}

// WriteSteps begins to write the steps of the clients that are made from now on: the first most of them.
func WriteSteps(path string, most int) (w *StepWriter, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w = &StepWriter{file: file, left: most}
	w.stop = trace.To(w.step)
	return w, nil
}

func (w *StepWriter) step(s trace.Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 || w.err != nil {
		return
	}
	w.left--
	line, err := json.Marshal(s)
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	w.err = err
}

// Close ends the file, and returns what went wrong.
func (w *StepWriter) Close() error {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left = 0; w.err == nil {
		w.err = w.file.Close()
	}
	return w.err
}

// ReadSteps reads the files of a folder, of processes that wrote most steps at most. It returns their steps, and until when they are all of
// them; zero if they are.
func ReadSteps(folder string, most int) (all []trace.Step, until time.Time, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return nil, until, err
	}
	for _, name := range files {
		steps, err := readSteps(name)
		if err != nil {
			return nil, until, err
		}
		if len(steps) == most {
			if last := steps[most-1].At; until.IsZero() || last.Before(until) {
				until = last
			}
		}
		all = append(all, steps...)
	}
	return all, until, nil
}

func readSteps(name string) (all []trace.Step, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was read
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return all, nil // without what a process was writing when it was killed
		}
		if err != nil {
			return nil, err
		}
		var s trace.Step
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}
