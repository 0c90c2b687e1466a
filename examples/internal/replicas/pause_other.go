//go:build !unix

package replicas

import (
	"errors"
	"os"
)

// Pause stops this process until [Group.Resume]. Here nothing can.
func Pause() error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
