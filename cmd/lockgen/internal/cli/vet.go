package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

// vet makes go vet run the analyzers of this program: go vet knows the packages, and caches results. Mistakes in the
// code make the command fail; it prints warnings after them, and does not fail because of them.
func vet(c *Config, dir string, stdout, stderr io.Writer) (int, error) {
	code, err := goVet(c, dir, stdout, stderr)
	if err != nil || code != exitOK {
		return code, err
	}
	if _, err := goVet(c, dir, stdout, stderr, "-lockbound", "-lockbound.warn"); err != nil {
		return exitTrouble, err
	}
	return exitOK, nil
}

func goVet(c *Config, dir string, stdout, stderr io.Writer, flags ...string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return exitTrouble, err
	}
	args := append([]string{"vet", "-vettool=" + self}, flags...)
	if c.Tags != "" {
		args = append(args, "-tags="+c.Tags, "-stale.tags="+c.Tags)
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
