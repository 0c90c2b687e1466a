package lockrt

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Process returns the description that the Client gives to others: name, host and program.
func (c *Client) Process() Process {
	if c.made() == nil {
		return Process{}
	}
	p := thisProgram()
	p.ID, p.Name = c.wire.UUID, c.opts.Name
	if !c.opts.Anonymous {
		p.Host, p.PID = thisHost(), os.Getpid()
	}
	return p
}

// Redis returns the client that sends the commands. [Client.Close] closes it after [Open].
func (c *Client) Redis() rueidis.Client {
	if c == nil {
		return nil
	}
	return c.rc
}

// began is about when the program began.
var began = time.Now()

var thisHost = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		return "" // it is unknown
	}
	return host
})

const modulePath = "github.com/lockgen/lockgen"

// thisProgram returns the build information of the program.
var thisProgram = sync.OnceValue(func() Process {
	p := Process{Program: filepath.Base(os.Args[0]), Started: began}
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
