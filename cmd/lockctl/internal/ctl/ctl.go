// Package ctl implements the program lockctl.
package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// JSONVersion is the version of the output of -json. Added fields keep the version.
const JSONVersion = 1

// The exit codes, of sysexits.h and of a shell where they have one.
const (
	exitOK         = 0
	exitFound      = 1   // the search found nothing, or something is wrong
	exitUsage      = 64  // wrong command line
	exitNoRedis    = 69  // no server, or it refuses
	exitOutput     = 74  // the output cannot be written
	exitTaken      = 75  // the lock has another holder
	exitLost       = 76  // the lock was lost while the command ran
	exitCannotRun  = 126 // as a shell
	exitNotFound   = 127
	exitSignalBase = 128
)

// An Env is the environment of a program.
type Env struct {
	Args   []string // without the name of the program
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Colour bool // Stdout is a terminal whose owner did not ask for plain text
	Asks   bool // Stdin is a terminal: the user can answer questions
}

// A verb is a subcommand of lockctl.
type verb struct {
	name, args, about string
	run               func(ctx context.Context, o *options) int
	flags             func(f *flag.FlagSet, o *options)
	least, most       int // arguments; most is -1 for any number
}

var verbs []verb

func init() {
	verbs = []verb{
		{"list", "[pattern]", "lists the locks that are held or wanted", list, func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.scan, "scan", false, "sweep the keyspace, too, for locks that no process names")
			f.IntVar(&o.rate, "rate", 100_000, "keys a second that a sweep looks at, at most")
		}, 0, 1},
		{"show", "key", "shows everything about one lock", show, nil, 1, 1},
		{"watch", "[pattern]", "repeats list each second; q and Enter ends it", watch, nil, 0, 1},
		{"why", "key", "shows, for each waiter, the chain of waiters and holders to its end", why, nil, 1, 1},
		{"deadlocks", "", "lists the circles of calls that wait for each other", deadlocks, nil, 0, 0},
		{"force", "key", "takes a lock from its holder", force, func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.yes, "yes", false, "do not ask")
		}, 1, 1},
		{"run", "key -- command [arguments]", "runs a command under a lock", run, func(f *flag.FlagSet, o *options) {
			o.wait = lockrt.UntilDone
			f.Func("wait", "the `duration` for which to wait for the lock: 0 tries once; without the flag the wait has no bound", func(s string) (err error) {
				o.wait, err = time.ParseDuration(s)
				return err
			})
			f.Func("permits", "take one of `n` permits in place of a lock", func(s string) (err error) {
				if o.permits, err = strconv.Atoi(s); err == nil && o.permits < 1 {
					err = errors.New("it is less than 1")
				}
				return err
			})
			f.BoolVar(&o.reads, "read", false, "lock for reading")
			f.BoolVar(&o.fair, "fair", false, "take a fair lock")
			f.BoolVar(&o.fence, "fence", false, "with a fencing token, in LOCKGEN_TOKEN")
			f.DurationVar(&o.watchdog, "watchdog", lockrt.DefaultWatchdog, "how long the lock outlives this program if it is killed")
		}, 2, -1},
		{"doctor", "[key]", "checks whether a server suits locks, and whether a user may lock", doctor, func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.user, "for", "", "the `user` of Redis whose rights are checked, such as that of a service; default the user of -url")
		}, 0, 1},
	}
}

// options are the values of a command line, and the resources of a verb.
type options struct {
	Env

	verb    string
	args    []string
	url     string
	tls     security
	timeout time.Duration
	json    bool

	scan               bool
	rate               int
	user               string
	yes                bool
	wait, watchdog     time.Duration
	permits            int
	reads, fair, fence bool

	c   *lockrt.Client
	rc  rueidis.Client
	out *output // but of run
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Lockctl shows the holders and the waiters of locks, and acts on them.\n\nUsage:\n\n")
	for _, v := range verbs {
		fmt.Fprintf(w, "  lockctl %-42s %s\n", strings.TrimSpace(v.name+" [flags] "+v.args), v.about)
	}
	fmt.Fprint(w, `
Flags of all verbs:

  -url URL        the server, as lockrt.Open takes it; default $REDIS_URL, else redis://localhost:6379
  -cacert FILE    authorities that the servers' certificates are of, for rediss://; default those of the system
  -cert FILE      a certificate to show the servers, with -key FILE, its private key
  -timeout d      how long to wait for answers; default 5s
  -json           print JSON, version `+fmt.Sprint(JSONVersion)+`

lockctl VERB -h lists the others. Exit codes: 0 done, 1 not found or something is wrong, 64 usage, 69 no Redis,
74 the output cannot be written; of run also 75 another holder has the lock, 76 the lock was lost, 126 and 127 as a shell, 128+n for the signal n.
`)
}

// Run runs the program. It returns the exit code.
func Run(ctx context.Context, env Env) int {
	o := &options{Env: env}
	if len(env.Args) == 0 {
		usage(env.Stderr)
		return exitUsage
	}
	o.verb = env.Args[0]
	if o.verb == guardVerb {
		return guardCommand(env.Stdin)
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, o.verb) {
		usage(env.Stdout)
		return exitOK
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == o.verb })
	if i < 0 {
		return o.fail(exitUsage, fmt.Errorf("there is no verb %s; lockctl help lists them", clean(o.verb)))
	}
	v := verbs[i]
	flags := flag.NewFlagSet("lockctl "+v.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	// A default value would be printed by -h, with the password in it.
	flags.StringVar(&o.url, "url", "", "the server, as lockrt.Open takes it; default $REDIS_URL, else redis://localhost:6379")
	o.tls.flags(flags)
	flags.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long to wait for answers")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if v.flags != nil {
		v.flags(flags, o)
	}
	switch err := flags.Parse(env.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(env.Stdout, "lockctl %s [flags] %s\n  %s\n\n", v.name, v.args, v.about)
		flags.SetOutput(env.Stdout)
		flags.PrintDefaults()
		return exitOK
	case err != nil:
		return o.fail(exitUsage, err)
	}
	var empty error // of a variable of a script that is not set: the default is not meant
	flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"url", "cacert", "cert", "key", "for"}, f.Name) && f.Value.String() == "" {
			empty = fmt.Errorf("-%s is empty", f.Name)
		}
	})
	if empty != nil {
		return o.fail(exitUsage, empty)
	}
	o.args = flags.Args()
	o.url = cmp.Or(o.url, env.Getenv("REDIS_URL"), "redis://localhost:6379")
	switch {
	case len(o.args) < v.least, v.most >= 0 && len(o.args) > v.most:
		return o.fail(exitUsage, fmt.Errorf("it takes %s; lockctl %s -h says more", cmpText(v.args, "no arguments"), v.name))
	case o.timeout <= 0:
		return o.fail(exitUsage, fmt.Errorf("-timeout %v is no time", o.timeout))
	}
	if v.name == "run" { // its command writes
		return v.run(ctx, o)
	}
	o.out = &output{to: env.Stdout}
	o.Stdout = o.out
	code := v.run(ctx, o)
	if o.out.err != nil {
		return o.fail(exitOutput, o.out.err)
	}
	return code
}

// An output remembers the first error: a listing that is cut off must not look whole.
type output struct {
	to  io.Writer
	err error
}

func (w *output) Write(text []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(text)
	w.err = err
	return n, err
}

func cmpText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// fail prints what is wrong and returns the exit code.
func (o *options) fail(code int, err error) int {
	name := "lockctl"
	if code != exitUsage || slices.ContainsFunc(verbs, func(v verb) bool { return v.name == o.verb }) {
		name += " " + o.verb
	}
	fmt.Fprintf(o.Stderr, "%s: %s\n", name, clean(err.Error()))
	return code
}

// open connects. The caller closes the client.
func (o *options) open(ctx context.Context, opts lockrt.Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	opts.Name, opts.OpTimeout = "lockctl", o.timeout
	var err error
	if opts.TLS, err = o.tls.config(); err != nil {
		return err
	}
	c, err := lockrt.Open(ctx, o.url, opts)
	if err != nil {
		if text, url := strings.CutPrefix(err.Error(), "lockgen: open: "); url && errors.Is(err, lockrt.ErrBadOption) {
			if why, secured := strings.CutPrefix(text, "lockgen: Options.TLS: "); secured {
				return &usageError{"-cacert, -cert and -key: " + why}
			}
			return &usageError{"-url: " + text}
		}
		return err
	}
	o.c, o.rc = c, c.Redis()
	return nil
}

// with connects for f, which has the time limit of -timeout.
func (o *options) with(ctx context.Context, f func(ctx context.Context) (int, error)) int {
	if err := o.open(ctx, lockrt.Options{}); err != nil {
		return o.fail(codeOf(err), err)
	}
	defer func() { _ = o.c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	code, err := f(ctx)
	if err != nil {
		return o.fail(codeOf(err), err)
	}
	return code
}

// codeOf returns the exit code of a program that ends with err.
func codeOf(err error) int {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, lockrt.ErrBadOption), errors.As(err, new(*lockrt.KeyError)):
		return exitUsage
	case errors.Is(err, lockrt.ErrNotAcquired):
		return exitTaken
	}
	return exitNoRedis
}

// A usageError is of the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// print prints v as JSON.
func (o *options) print(v any) {
	out := json.NewEncoder(o.Stdout)
	out.SetIndent("", "  ")
	_ = out.Encode(v) // Run returns the error
}
