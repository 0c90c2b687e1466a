package protocol

import (
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// Introduce returns the command that says which process the client uuid is in, for lasts: fields, each followed by its value.
func Introduce(uuid string, lasts time.Duration, fields []string) Command {
	return Command{scripts.Introduce, []string{ProcessKey(uuid)}, append([]string{millis(lasts)}, fields...)}
}
