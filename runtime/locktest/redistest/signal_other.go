//go:build !unix

package redistest

import (
	"errors"
	"os"
)

func stopProcess(*os.Process) error { return errors.ErrUnsupported }

func continueProcess(*os.Process) error { return errors.ErrUnsupported }
