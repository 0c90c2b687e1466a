// Package cli is the command: arguments in, files and messages out, and an exit code.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// Exit codes.
const (
	exitOK      = 0 // written, or nothing to do
	exitWrong   = 1 // the input has mistakes, or with -check the disk differs
	exitTrouble = 2 // wrong usage, or the run itself failed
)

// A Config is what the arguments say.
type Config struct {
	Check    bool   // compare instead of writing
	Tags     string // build tags
	Version  bool   // print the version and stop
	Patterns []string
}

// Parse reads arguments, and only that. Help for -h, and what is wrong with the arguments, go to stderr.
func Parse(args []string, stderr io.Writer) (*Config, error) {
	c := &Config{}
	flags := flag.NewFlagSet("lockgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&c.Check, "check", false, "write nothing; print what is not up to date as a diff and exit with 1 if anything is")
	flags.StringVar(&c.Tags, "tags", "", "comma-separated build `tags`, as for go build")
	flags.BoolVar(&c.Version, "version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: lockgen [-check] [-tags list] [packages]\n\n"+
			"Lockgen writes typed lock wrappers for the annotated interfaces of the packages, by default of the one in this directory.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	c.Patterns = flags.Args()
	if len(c.Patterns) == 0 {
		c.Patterns = []string{"."}
	}
	return c, nil
}

// Main runs the command in a directory and returns the exit code.
func Main(args []string, dir string, stdout, stderr io.Writer) int {
	c, err := Parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitTrouble
	case c.Version:
		fmt.Fprintln(stdout, "lockgen", version())
		return exitOK
	}
	code, err := run(c, dir, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "lockgen: %v\n", err)
		return exitTrouble
	}
	return code
}

// version is that of the module this command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// Dir is the directory that the process was started in, as it was named: with symbolic links.
func Dir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}
