// Package cli is the command: arguments in, files and messages out, and an exit code.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// Exit codes.
const (
	exitOK      = 0 // written, or nothing to do
	exitWrong   = 1 // the input has mistakes, or with -check the disk differs
	exitTrouble = 2 // wrong usage, or the run itself failed
)

// A Config is what the arguments say.
type Config struct {
	Command  string // "" to generate, list, graph, explain or vet
	Check    bool   // compare instead of writing
	Dry      bool   // say what would be written instead of writing
	JSON     bool   // say everything as data
	Markdown bool   // list: for documents
	DOT      bool   // graph: for graphviz
	Strict   bool   // warnings are mistakes
	Quiet    bool   // no warnings and no notes
	Cache    string // on, off, or auto: on if this isn't CI
	Tags     string // build tags
	Version  bool   // print the version and stop
	Name     string // explain: of what
	Patterns []string
}

// usages say how each command is called and what it does.
var usages = map[string]string{
	"": `usage: lockgen [-check | -n] [-json] [-strict | -q] [-cache auto] [-tags list] [packages]
       lockgen list [-json | -markdown] [-tags list] [packages]
       lockgen graph [-dot] [-tags list] [packages]
       lockgen explain [-tags list] name [packages]
       lockgen vet [-tags list] [packages]

Lockgen writes typed lock wrappers for the annotated interfaces of the packages, by default of the one in this directory.
The other commands read the packages, by default all below this directory, and write nothing: list shows which method takes
which locks, graph draws them, explain shows all about one method, interface or key, and vet finds mistakes in the use of
locks. More about a command: lockgen help list.

`,
	"list": `usage: lockgen list [-json | -markdown] [-tags list] [packages]

List shows which method takes which locks, in the packages, by default in all below this directory.

`,
	"graph": `usage: lockgen graph [-dot] [-tags list] [packages]

Graph draws which methods take which locks, and in which order, as a Mermaid flowchart.

`,
	"vet": `usage: lockgen vet [-tags list] [packages]

Vet runs go vet with the analyzers of lockgen alone: leases that are not unlocked, work under a context that does not end when
the lock is lost, proofs that prove nothing, implementations that are called without their wrapper, and outputs that are not up
to date.

`,
	"explain": `usage: lockgen explain [-tags list] name [packages]

Explain shows all about a method (Pay, Service.Pay or orders.Service.Pay), about the methods of an interface, or about the
methods that lock a key (order:42) or all keys like it (order:{}).

`,
}

// Parse reads arguments, and only that. Help for -h, and what is wrong with the arguments, go to stderr.
func Parse(args []string, stderr io.Writer) (*Config, error) {
	c := &Config{}
	if len(args) > 0 && args[0] != "" && usages[args[0]] != "" {
		c.Command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("lockgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.Tags, "tags", "", "comma-separated build `tags`, as for go build")
	all := "."
	switch c.Command {
	case "":
		flags.BoolVar(&c.Check, "check", false, "write nothing; print what is not up to date as a diff and exit with 1 if anything is")
		flags.BoolVar(&c.Dry, "n", false, "write nothing; print which files would be written and removed")
		flags.BoolVar(&c.JSON, "json", false, "print mistakes, notes and files as JSON")
		flags.BoolVar(&c.Strict, "strict", false, "take warnings for mistakes: exit with 1 and write nothing")
		flags.BoolVar(&c.Quiet, "q", false, "print no warnings and no notes")
		flags.StringVar(&c.Cache, "cache", "auto", "whether to believe that what was up to date is so, if nothing has changed: `on`, off, or auto: on unless the\nenvironment has CI, since there nobody should have to believe anything")
		flags.BoolVar(&c.Version, "version", false, "print the version and exit")
	case "list":
		flags.BoolVar(&c.JSON, "json", false, "print JSON")
		flags.BoolVar(&c.Markdown, "markdown", false, "print a Markdown table")
	case "graph":
		flags.BoolVar(&c.DOT, "dot", false, "print the input of graphviz")
	}
	if c.Command != "" {
		all = "./..."
	}
	flags.Usage = func() {
		fmt.Fprint(stderr, usages[c.Command])
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	c.Patterns = flags.Args()
	if wrong := c.finish(); wrong != nil {
		fmt.Fprintln(stderr, wrong)
		flags.Usage()
		return nil, wrong
	}
	if len(c.Patterns) == 0 {
		c.Patterns = []string{all}
	}
	return c, nil
}

// finish takes the name from the arguments and says which of them exclude each other.
func (c *Config) finish() error {
	switch {
	case c.Command == "" && c.Cache != "on" && c.Cache != "off" && c.Cache != "auto":
		return errors.New("-cache takes on, off or auto")
	case c.Check && c.Dry:
		return errors.New("-check and -n exclude each other")
	case c.Strict && c.Quiet:
		return errors.New("-strict and -q exclude each other")
	case c.JSON && c.Markdown:
		return errors.New("-json and -markdown exclude each other")
	case c.Command == "explain" && len(c.Patterns) == 0:
		return errors.New("explain needs a name")
	case c.Command == "explain":
		c.Name, c.Patterns = c.Patterns[0], c.Patterns[1:]
	}
	return nil
}

// Main runs the command in a directory and returns the exit code.
func Main(args []string, dir string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "help" {
		return help(args[1:], stdout, stderr)
	}
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
	command := run
	if c.Command == "vet" {
		command = vet
	}
	code, err := command(c, dir, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "lockgen: %v\n", err)
		return exitTrouble
	}
	return code
}

// help prints how lockgen, or one of its commands, is called.
func help(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		args = []string{"-h"}
	case len(args) == 1 && args[0] != "" && usages[args[0]] != "":
		args = append(args, "-h")
	default:
		fmt.Fprintf(stderr, "lockgen: no command %s; the commands are %s\n", strings.Join(args, " "), strings.Join(commands(), ", "))
		return exitTrouble
	}
	if _, err := Parse(args, stdout); !errors.Is(err, flag.ErrHelp) {
		return exitTrouble
	}
	return exitOK
}

// commands lists the commands that have a name.
func commands() []string {
	return slices.Sorted(maps.Keys(usages))[1:]
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
