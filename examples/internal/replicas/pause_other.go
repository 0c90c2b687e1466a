//go:build !unix

package replicas

import (
	"errors"
	"os"
)

// Pause pauses this process until [Group.Resume]. This system cannot do that.
func Pause() error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
