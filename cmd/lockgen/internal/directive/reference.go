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
	"key":      {"a template, see [keys](#keys), or `@function`", "required", "The name of the lock. Several lock directives on one method are taken together, all or none, in the order of their keys."},
	"kind":     {"`mutex`, `read`, `write`, `fair`, `permit`, `red`", "`mutex`", "The kind of lock of a service. `read` and `write` are the two sides of a read-write lock: many readers, or one writer. `fair` is granted in the order in which it was asked for, among all processes. `permit` is one of the permits of a semaphore: as many calls as `permits` says run at once. `red` is held on a majority of independent servers, whose clients the constructor then takes. The locks of one method can be of several kinds. Give all locks of one key the same kind, since locks of different kinds do not exclude each other; reading and writing count as one kind. The result type of a typed lock says its kind."},
	"permits":  {"a number", "required for `kind=permit` and a `lockrt.EntitySemaphore`", "How many calls can have a permit at once. The first call for a key stores the number in Redis, where it stays. A call under the permit of another one takes a permit of its own."},
	"wait":     {"a duration, `0`, `ctx`", "`ctx`", "How long to wait for the lock, or for all locks of the method together. `0` tries once, `ctx` waits until the context ends. Redisson's waitTime."},
	"watchdog": {"a duration of at least `1s`", "`Options.Watchdog`, 30s", "How long the lock outlives a crashed holder. It is renewed every third of that while it is held. Excludes `lease`."},
	"lease":    {"a duration of at least `100ms`", "none", "A fixed time that is not renewed; the lock is lost if the call takes longer. Redisson's leaseTime. Excludes `watchdog`."},
	"busy":     {"`error`, `skip`, `fallback`", "`error`", "The result of a call when another caller holds the lock after the wait. If Redis cannot be reached, it is `lockrt.ErrUnavailable` in any case. `error` returns `lockrt.ErrNotAcquired`; `skip` calls nothing and returns nil, for methods that return an error or nothing (every other error of a method that returns nothing goes to `Options.Logger` and `Hooks.Unreported`); `fallback` calls the method of a second implementation, which the constructor then takes."},
	"lost":     {"`cancel`, `report`", "`cancel`", "The effect of a loss while the method runs: `cancel` ends the context of the call, `report` leaves it. In both cases the loss is joined to the method's error; of `scope=iter`, see there."},
	"fence":    {"none: it stands alone", "no token", "The lease has a fencing token, which the method finds by `lockrt.TokenFrom` of its context, and the holder of an entity by `Token`. A method with several locks sets it for each of them; if several have tokens, `lockrt.TokenOf` returns the token of one key. Readers and permits have none."},
	"release":  {"`auto`, `keep`", "`auto`", "With `keep` the lock stays locked until its lease ends, so that the method runs once per lease, over all callers. It needs `lease`, and is for mutexes."},
	"min":      {"a duration", "none", "The lock stays locked at least that long after it was acquired, although the call returns before. For mutexes."},
	"linger":   {"a duration of at most `20ms`", "`Options.Linger`, none", "The key stays with the client for that long after the call, and the next call of the client has it without a request. For mutexes without `lease`."},
	"scope":    {"`return`, `iter`, `close`", "required for results that outlive the call", "When the wrapper releases the lock, if the method returns an iterator, a channel, a function or something to close: with `return` when the call returns; with `iter` when the loop over an `iter.Seq` or `iter.Seq2` ends, which allows one loop; with `close` when `Close() error` of an interface is called. If nobody begins the loop, the end of the call's context releases the lock: the sequence of a method without a context has to be looped over, or the lock stays locked until the client closes. A loss during the loop is the last pair of an `iter.Seq2` whose second part is an error; otherwise, and after a `break`, it goes to `Options.Logger` and `Hooks.Unreported`."},
	"after":    {"keys, as `order:{}`; several in one quoted argument", "none", "The locks that the caller of the method holds already. A circle of such orders is a mistake."},
	"max":      {"a number", "`64`", "The most elements of a list `{ids...}`. A call with more fails before anything is sent."},
	"empty":    {"`allow`", "refused", "An empty text is a value like others, and an empty list of a service's method locks nothing. Without it both are errors of the call. An `EntityMulti` of no elements is an error in any case."},
	"method":   {"a method", "none", "Above an interface: the embedded method that the directive is for. It replaces what stands where that is declared."},
	"ctx":      {"a parameter", "the one of type `context.Context`", "Which context ends the wait and is replaced by the lock's."},
	"name":     {"an identifier", "`LockedX`, for locks `NewX`", "The name of the generated wrapper (service) or of its constructor (locks)."},
	"prefix":   {"key text without placeholders", "none", "Stands before the keys of all locks that the interface declares, with a colon between. A lock that is inherited keeps the prefix of the interface that declares it."},
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
