package directive

import (
	"fmt"
	"slices"
	"strings"
)

// A description is what the reference says about an option.
type description struct{ values, preset, meaning string }

// described has all options of the table, for the reference.
var described = map[string]description{
	"key":      {"a template, see [keys](#keys)", "required", "The name of the lock. Several lock directives on one method are taken together, all or none, in the order of their keys."},
	"kind":     {"`mutex`", "`mutex`", "The kind of lock."},
	"wait":     {"a duration, `0`, `ctx`", "`ctx`", "How long to wait for the lock, or for all locks of the method together. `0` tries once, `ctx` waits until the context ends. Redisson's waitTime."},
	"watchdog": {"a duration of at least `1s`", "`Options.Watchdog`, 30s", "How long the lock outlives a crashed holder. It is renewed every third of that while it is held. Excludes `lease`."},
	"lease":    {"a duration of at least `100ms`", "none", "A fixed time that is not renewed; the lock is lost if the call takes longer. Redisson's leaseTime. Excludes `watchdog`."},
	"busy":     {"`error`, `skip`", "`error`", "What happens when somebody else holds the lock after the wait: `error` returns `lockrt.ErrNotAcquired`; `skip` calls nothing and returns nil, for methods that return an error or nothing."},
	"scope":    {"`return`", "required for results that outlive the call", "Until when the lock is held if the method returns an iterator, a channel, a function or something to close: `return` says that it ends with the call."},
	"after":    {"keys, as `order:{}`; several in one quoted argument", "none", "The locks that whoever calls the method holds already. A circle of such orders is a mistake."},
	"max":      {"a number", "`64`", "The most elements of a list `{ids...}`. A call with more fails before anything is sent."},
	"empty":    {"`allow`", "refused", "That a text may be empty, and a list: nothing is locked then."},
	"ctx":      {"a parameter", "the one of type `context.Context`", "Which context ends the wait and is replaced by the lock's."},
	"name":     {"an identifier", "`LockedX`, for locks `NewX`", "The name of the generated wrapper (service) or of its constructor (locks)."},
	"prefix":   {"key text without placeholders", "none", "Stands before all keys of the interface, with a colon between."},
	"require":  {"`all`, `annotated`", "`annotated`", "With `all` every method must have a lock or a nolock."},
}

// Reference is the table of all options, in Markdown, and the names of those that it lacks.
func Reference() (table string, missing []string) {
	var b strings.Builder
	b.WriteString("| option | of | values | default | meaning |\n|---|---|---|---|---|\n")
	for _, o := range options {
		d, ok := described[o.name]
		if !ok {
			missing = append(missing, o.name)
			continue
		}
		of := join(o.verbs)
		if slices.Equal(o.verbs, everywhere) {
			of = "all but nolock"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", o.name, of, d.values, d.preset, d.meaning)
	}
	return b.String(), missing
}
