package directive

import (
	"errors"
	"fmt"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// An option is a row of the table of what may stand behind a verb.
type option struct {
	name  string
	verbs []Verb
	set   func(d *Directive, a *Arg) string // returns what is wrong with the value
	flag  bool                              // it stands alone, without a value
}

var (
	everywhere = []Verb{Service, Locks, Lock, Defaults}
	interfaces = []Verb{Service, Locks}
	onLock     = []Verb{Lock}
)

// options is the whole option language, in the order in which messages list it.
var options = []option{
	{name: "key", verbs: onLock, set: setKey},
	{name: "kind", verbs: onLock, set: setKind},
	{name: "permits", verbs: onLock, set: setPermits},
	{name: "wait", verbs: everywhere, set: setWait},
	{name: "watchdog", verbs: everywhere, set: setWatchdog},
	{name: "lease", verbs: everywhere, set: setLease},
	{name: "busy", verbs: onLock, set: setBusy},
	{name: "lost", verbs: []Verb{Service, Lock, Defaults}, set: setLost},
	{name: "fence", verbs: onLock, set: func(d *Directive, a *Arg) string { d.Fence = a; return "" }, flag: true},
	{name: "release", verbs: onLock, set: setRelease},
	{name: "min", verbs: onLock, set: setMin},
	{name: "linger", verbs: onLock, set: setLinger},
	{name: "scope", verbs: onLock, set: setScope},
	{name: "max", verbs: onLock, set: setMax},
	{name: "empty", verbs: onLock, set: setEmpty},
	{name: "after", verbs: onLock, set: func(d *Directive, a *Arg) string { d.After = a; return "" }},
	{name: "ctx", verbs: onLock, set: func(d *Directive, a *Arg) string { d.Ctx = a; return "" }},
	{name: "method", verbs: []Verb{Lock, NoLock}, set: func(d *Directive, a *Arg) string { d.Method = a; return "" }},
	{name: "name", verbs: interfaces, set: func(d *Directive, a *Arg) string { d.Name = a; return "" }},
	{name: "prefix", verbs: interfaces, set: func(d *Directive, a *Arg) string { d.Prefix = a; return "" }},
	{name: "require", verbs: []Verb{Service}, set: setRequire},
}

// set gives the directive one argument.
func set(list *diag.List, d *Directive, a *Arg) {
	i := slices.IndexFunc(options, func(o option) bool { return o.name == a.Name })
	switch {
	case i < 0 && !token.IsIdentifier(a.Name):
		list.Add(a.Pos, a.End, "this is no argument: an argument is name=value without white space, or quoted whole, as in \"name=a value\"")
		return
	case i < 0:
		hint := diag.Suggest(a.Name, optionNames(d.Verb))
		if hint == "" {
			hint = "; " + takes(d.Verb)
		}
		list.Add(a.Pos, a.End, "unknown option %s%s", a.Name, hint)
		return
	case !slices.Contains(options[i].verbs, d.Verb):
		list.Add(a.Pos, a.End, "option %s does not belong to %s, it belongs to %s; %s", a.Name, d.Verb, join(options[i].verbs), takes(d.Verb))
		return
	case d.has(a.Name):
		list.Add(a.Pos, a.End, "option %s is given twice", a.Name)
		return
	}
	d.given = append(d.given, a)
	switch {
	case options[i].flag && a.Value != "":
		list.Add(a.Pos, a.End, "option %s stands alone, without a value", a.Name)
		return
	case commas(a.Value):
		from, to := a.ValuePos()
		list.Add(from, to, "arguments are separated by white space, not by commas")
		return
	case !options[i].flag && a.Value == "":
		list.Add(a.Pos, a.End, "option %s needs a value: %s=...", a.Name, a.Name)
		return
	}
	if wrong := options[i].set(d, a); wrong != "" {
		from, to := a.ValuePos()
		list.Add(from, to, "%s", wrong)
	}
}

// commas reports whether a value goes on with a comma and another argument. Most of these could be part of a key.
func commas(value string) bool {
	_, rest, more := strings.Cut(value, ",")
	for ; more; _, rest, more = strings.Cut(rest, ",") {
		name, _, ok := strings.Cut(rest, "=")
		if ok && slices.ContainsFunc(options, func(o option) bool { return o.name == name }) {
			return true
		}
	}
	return false
}

// finish checks what only the whole directive shows.
func (d *Directive) finish(list *diag.List) {
	if d.Timing.Lease != nil && d.Timing.Watchdog != nil {
		a := d.Arg("lease")
		list.Add(a.Pos, a.End, "lease and watchdog exclude each other: a lease is fixed and not renewed, a watchdog renews")
	}
	if d.Verb == Lock && d.Key == nil && !d.has("key") {
		list.Add(d.Slash, d.End, "lock needs a key: //lockgen:lock key=order:{id}")
	}
}

func (d *Directive) has(name string) bool { return d.Arg(name) != nil }

// Arg is an option that is given, or nil.
func (d *Directive) Arg(name string) *Arg {
	for _, a := range d.given {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// takes names the options of a verb, for messages.
func takes(v Verb) string {
	names := optionNames(v)
	if len(names) == 0 {
		return string(v) + " takes no options"
	}
	return string(v) + " takes " + strings.Join(names, ", ")
}

func optionNames(v Verb) []string {
	var names []string
	for _, o := range options {
		if slices.Contains(o.verbs, v) {
			names = append(names, o.name)
		}
	}
	return names
}

func join(verbs []Verb) string {
	var s []string
	for _, v := range verbs {
		s = append(s, string(v))
	}
	return strings.Join(s, ", ")
}

func setKey(d *Directive, a *Arg) string {
	d.Key = a
	// Taken for a literal it would be one lock for everything.
	if name, ok := strings.CutPrefix(a.Value, "@"); ok && !token.IsIdentifier(name) {
		return "a key that begins with @ is the name of a function of this package, such as key=@payKey"
	}
	return ""
}

func setKind(d *Directive, a *Arg) string {
	d.Kind = a
	return oneOf(a, "mutex", "read", "write", "fair", "permit", "red")
}

func setWait(d *Directive, a *Arg) string {
	wait := UntilDone
	if a.Value != "ctx" {
		var wrong string
		if wait, wrong = duration(a); wrong != "" {
			return wrong + ", 0 to try once, or ctx to wait as long as the context lives"
		}
	}
	d.Timing.Wait = &wait
	return ""
}

func setWatchdog(d *Directive, a *Arg) string {
	v, wrong := duration(a)
	if wrong == "" && v < time.Second {
		wrong = "watchdog must be at least 1s, it is renewed every third of that"
	}
	d.Timing.Watchdog = &v
	return wrong
}

func setLease(d *Directive, a *Arg) string {
	v, wrong := duration(a)
	if wrong == "" && v < 100*time.Millisecond {
		wrong = "lease must be at least 100ms"
	}
	d.Timing.Lease = &v
	return wrong
}

// duration reads a duration that isn't negative.
func duration(a *Arg) (time.Duration, string) {
	v, err := time.ParseDuration(a.Value)
	if err != nil || v < 0 {
		return 0, a.Name + " takes a duration such as 300ms, 5s or 1m"
	}
	return v, ""
}

func setBusy(d *Directive, a *Arg) string {
	d.Busy = a
	return oneOf(a, "error", "skip", "fallback")
}

func setLost(d *Directive, a *Arg) string {
	d.Lost = a
	return oneOf(a, "cancel", "report")
}

func setRelease(d *Directive, a *Arg) string {
	d.Release = a
	return oneOf(a, "auto", "keep")
}

func setMin(d *Directive, a *Arg) string {
	v, wrong := duration(a)
	if wrong == "" && v == 0 {
		wrong = "min is how long the lock stays locked at least; 0 says nothing"
	}
	d.Min, d.AtLeast = a, v
	return wrong
}

// mostLinger is the longest time that the runtime takes.
const mostLinger = 20 * time.Millisecond

func setLinger(d *Directive, a *Arg) string {
	v, wrong := duration(a)
	switch {
	case wrong != "":
	case v == 0:
		wrong = "linger is how long the key stays with the client after a call; 0 says nothing"
	case v > mostLinger:
		wrong = "linger is at most " + mostLinger.String()
	}
	d.Linger, d.LingersFor = a, v
	return wrong
}

func setScope(d *Directive, a *Arg) string {
	d.Scope = a
	return oneOf(a, "return", "iter", "close")
}

// oneOf says that a value is none of those that the option takes, or "".
func oneOf(a *Arg, values ...string) string {
	if slices.Contains(values, a.Value) {
		return ""
	}
	last := len(values) - 1
	return a.Name + " takes " + strings.Join(values[:last], ", ") + " or " + values[last] + diag.Suggest(a.Value, values)
}

func setPermits(d *Directive, a *Arg) string {
	n, wrong := number(a)
	if wrong != "" {
		return wrong + ": how many may have one at once"
	}
	d.Permits = n
	return ""
}

func setMax(d *Directive, a *Arg) string {
	n, wrong := number(a)
	if wrong != "" {
		return wrong + ": the most elements that a list like {ids...} may have"
	}
	d.Max, d.MaxKeys = a, n
	return ""
}

// number reads a number that isn't zero and that an int can have on every system: the output is the same on all.
func number(a *Arg) (int, string) {
	v, err := strconv.ParseInt(a.Value, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange) && v > 0:
		return 0, fmt.Sprintf("%s takes a number up to %d", a.Name, math.MaxInt32)
	case err != nil || v < 1:
		return 0, a.Name + " takes a number from 1"
	}
	return int(v), ""
}

func setEmpty(d *Directive, a *Arg) string {
	d.Empty = a
	if a.Value == "allow" {
		return ""
	}
	return "empty takes allow; without it an empty text or list is an error" + diag.Suggest(a.Value, []string{"allow"})
}

func setRequire(d *Directive, a *Arg) string {
	d.Require = a
	return oneOf(a, "all", "annotated")
}
