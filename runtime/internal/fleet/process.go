package fleet

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Process returns the description that the process gives to others.
func (cfg *Config) Process() observe.Process {
	p := thisProgram()
	p.ID, p.Name = cfg.UUID, cfg.Name
	if !cfg.Anonymous {
		p.Host, p.PID = Host(), os.Getpid()
	}
	return p
}

// began is about when the program began.
var began = time.Now()

// Host returns the name of the host, or "" if it is unknown.
var Host = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
})

const modulePath = "github.com/lockgen/lockgen"

// thisProgram returns the build information of the program.
var thisProgram = sync.OnceValue(func() observe.Process {
	p := observe.Process{Program: filepath.Base(os.Args[0]), Started: began}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return p
	}
	if info.Path != "" && info.Path != "command-line-arguments" {
		p.Program = info.Path
	}
	p.ProgramVersion = info.Main.Version
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath {
			p.Library = m.Version
		}
	}
	return p
})

// processFields are the fields of the hash that describes a process, beside its version.
var processFields = []string{"name", "host", "pid", "program", "program_version", "library", "started"}

// fieldsOf returns the fields of a process that are not empty, each followed by its value.
func fieldsOf(p observe.Process) []string {
	fields := []string{"version", strconv.Itoa(observe.SnapshotVersion)}
	pid := ""
	if p.PID != 0 {
		pid = strconv.Itoa(p.PID)
	}
	for i, value := range []string{p.Name, p.Host, pid, p.Program, p.ProgramVersion, p.Library, p.Started.UTC().Format(time.RFC3339)} {
		if value != "" {
			fields = append(fields, processFields[i], value)
		}
	}
	return fields
}

// ProcessOf returns the process with an id as it describes itself in Redis, or nil if it does not.
func (cfg *Config) ProcessOf(id string) (*observe.Process, error) {
	f, err := cfg.Net.Fields(protocol.ProcessKey(id), processFields)
	if err != nil {
		return nil, err
	}
	p := observe.Process{Name: f[0], Host: f[1], Program: f[3], ProgramVersion: f[4], Library: f[5]}
	p.PID, _ = strconv.Atoi(f[2])
	p.Started, _ = time.Parse(time.RFC3339, f[6])
	if p == (observe.Process{}) {
		return nil, nil
	}
	p.ID = id
	return &p, nil
}
