package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// vet has go vet run the analyzers of this program: it knows the packages, and remembers what it has seen.
func vet(c *Config, dir string, stdout, stderr io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return exitTrouble, err
	}
	args := []string{"vet", "-vettool=" + self}
	if c.Tags != "" {
		args = append(args, "-tags="+c.Tags)
	}
	cmd := exec.CommandContext(context.Background(), "go", append(args, c.Patterns...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	err = cmd.Run()
	if _, found := errors.AsType[*exec.ExitError](err); found {
		return exitWrong, nil
	}
	if err != nil {
		return exitTrouble, err
	}
	return exitOK, nil
}
