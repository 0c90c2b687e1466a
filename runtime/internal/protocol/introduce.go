package protocol

import (
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// Introduce returns the command that says who the process is, for lasts: fields, each followed by its value.
func (p *Process) Introduce(lasts time.Duration, fields []string) Command {
	return Command{scripts.Introduce, []string{ProcessKey(p.UUID)}, append([]string{millis(lasts)}, fields...)}
}
