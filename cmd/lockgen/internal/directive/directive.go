// Package directive reads the //lockgen: comments of a file: their grammar, their options, and where they may stand.
//
//	directive = "//lockgen:" verb { space arg }
//	arg       = name "=" value
//	value     = anything without white space; an argument with white space is quoted whole, as in Go: "key=a b"
package directive

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// A Verb says what a directive does.
type Verb string

// The verbs.
const (
	Service  Verb = "service"  // on an interface: write a wrapper that locks around the calls
	Locks    Verb = "locks"    // on an interface: implement it with typed locks of entities
	Lock     Verb = "lock"     // on a method: the lock it holds or declares
	NoLock   Verb = "nolock"   // on a method: it needs none
	Defaults Verb = "defaults" // in the package comment: options of the whole package
)

var verbs = []string{string(Service), string(Locks), string(Lock), string(NoLock), string(Defaults)}

// UntilDone is the value of wait=ctx: as long as the context lives.
const UntilDone time.Duration = -1

// A Directive is one well-formed comment with its options.
type Directive struct {
	Verb       Verb
	Text       string // the whole comment
	Slash, End token.Pos

	Timing Timing

	Key     *Arg // lock: the template
	Kind    *Arg // lock: mutex, read, write, fair, permit or red
	Ctx     *Arg // lock: name of the context parameter
	After   *Arg // lock: keys of locks that are held when this one is taken
	Busy    *Arg // lock: error, skip or fallback
	Lost    *Arg // service, lock, defaults: cancel or report
	Fence   *Arg // lock: stands alone
	Release *Arg // lock: auto or keep
	Min     *Arg // lock: a duration
	Linger  *Arg // lock: a duration
	Scope   *Arg // lock: return, iter or close
	Max     *Arg // lock: number of elements of a list in the key
	Empty   *Arg // lock: allow
	Method  *Arg // lock and nolock above an interface: the embedded method that they are for
	Name    *Arg // service, locks
	Prefix  *Arg // service, locks
	Require *Arg // service: all or annotated

	MaxKeys int           // the value of Max
	Permits int           // how many of a semaphore, 0 if it isn't said
	AtLeast time.Duration // the value of Min

	LingersFor time.Duration // the value of Linger

	given []*Arg
}

// Function is the name of the function that makes the key, if the key is not a template.
func (d *Directive) Function() (name string, ok bool) {
	if d.Key == nil {
		return "", false
	}
	name, ok = strings.CutPrefix(d.Key.Value, "@")
	return name, ok && token.IsIdentifier(name)
}

// Is reports whether the value of an option is this one.
func (a *Arg) Is(value string) bool { return a != nil && a.Value == value }

// RequireAll reports whether each method must have a lock or a nolock.
func (d *Directive) RequireAll() bool { return d.Require != nil && d.Require.Value == "all" }

// Timing holds the durations that a directive gives; nil is not given.
type Timing struct{ Wait, Watchdog, Lease *time.Duration }

// Over returns t with what it leaves open taken from base. Watchdog and lease exclude each other, so either replaces both.
func (t Timing) Over(base Timing) Timing {
	if t.Wait == nil {
		t.Wait = base.Wait
	}
	if t.Watchdog == nil && t.Lease == nil {
		t.Watchdog, t.Lease = base.Watchdog, base.Lease
	}
	return t
}

// An Arg is one argument, name=value.
type Arg struct {
	Name, Value string
	Pos, End    token.Pos // of the whole argument
	value       token.Pos // where Value starts, if exact
	exact       bool      // the value stands in the source as it is: no escapes
}

// At returns the place of the bytes from off to end of the value, or of the whole argument if it was written with escapes.
func (a *Arg) At(off, end int) (from, to token.Pos) {
	if !a.exact {
		return a.Pos, a.End
	}
	return a.value + token.Pos(off), a.value + token.Pos(end)
}

// ValuePos returns the place of the whole value.
func (a *Arg) ValuePos() (from, to token.Pos) { return a.At(0, max(1, len(a.Value))) }

// Parse reads one comment. It returns nil if the comment is not for lockgen, and nil after noting it in list if it is wrong.
func Parse(list *diag.List, c *ast.Comment) *Directive {
	a, ok := attempt(c.Text)
	if !ok {
		return nil
	}
	if a.fix != "" {
		list.Add(c.Pos(), c.Pos()+token.Pos(a.width), "%q is not a directive; write %s", firstLine(c.Text[:a.width]), a.fix)
		return nil
	}
	if unseen(list, c) {
		return nil
	}
	raw, ok := ast.ParseDirective(c.Pos(), c.Text)
	if !ok {
		// "//lockgen:" and nothing, or something that can't be a verb, behind it.
		verb := c.Text[len("//lockgen:"):a.width]
		if verb == "" {
			list.Add(c.Pos(), c.Pos()+token.Pos(a.width), "directive without a verb; the verbs are %s", strings.Join(verbs, ", "))
		} else {
			unknown(list, c.Pos(), verb)
		}
		return nil
	}
	d := &Directive{Verb: Verb(raw.Name), Text: c.Text, Slash: c.Pos(), End: raw.End()}
	if !slices.Contains(verbs, raw.Name) {
		unknown(list, c.Pos(), raw.Name)
		return nil
	}
	if a := parseArguments(" " + raw.Args); a.parted && !a.words {
		list.Add(raw.ArgsPos, raw.End(), "an argument is name=value, without white space or another sign between; write //%s:%s%s", tool, raw.Name, a.text())
		return nil
	}
	args, err := raw.ParseArgs()
	if err != nil {
		list.Add(raw.ArgsPos, raw.End(), "%v", err)
		return nil
	}
	before := list.Len()
	for i, arg := range args {
		if strings.HasPrefix(arg.Arg, "//") {
			list.Add(arg.Pos, raw.End(), "a directive has no comment behind it; put it above")
			break
		}
		end := raw.End()
		if i+1 < len(args) {
			end = args[i+1].Pos
		}
		set(list, d, argument(raw, arg, end))
	}
	d.finish(list)
	if list.Len() > before {
		return nil
	}
	return d
}

// unknown notes a verb that isn't one, in a directive that starts at slash.
func unknown(list *diag.List, slash token.Pos, verb string) {
	hint := diag.Suggest(verb, verbs)
	if hint == "" {
		hint = "; the verbs are " + strings.Join(verbs, ", ")
	}
	from := slash + token.Pos(len("//lockgen:"))
	list.Add(from, from+token.Pos(len(verb)), "unknown directive lockgen:%s%s", verb, hint)
}

// argument splits name=value and finds where the value stands. The argument ends before end, white space aside.
func argument(raw ast.Directive, arg ast.DirectiveArg, end token.Pos) *Arg {
	src := raw.Args[arg.Pos-raw.ArgsPos : end-raw.ArgsPos]
	src = strings.TrimSpace(src)
	a := &Arg{Pos: arg.Pos, End: arg.Pos + token.Pos(len(src)), exact: true, value: arg.Pos}
	if src != "" && (src[0] == '"' || src[0] == '`') {
		a.value++
		a.exact = src[1:len(src)-1] == arg.Arg
	}
	name, value, found := strings.Cut(arg.Arg, "=")
	a.Name, a.Value = name, value
	if found {
		a.value += token.Pos(len(name) + 1)
	}
	return a
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimRight(s, "\r")
}
