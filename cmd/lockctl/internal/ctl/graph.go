package ctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// The types of locks, as -json shows them.
type (
	Lock   = survey.Lock
	Holder = survey.Holder
	Waiter = survey.Waiter
	Circle = survey.Circle
	Link   = survey.Link
)

// survey asks all processes about all locks, or about one key. It takes at most three fifths of the time that ctx has left, for the requests after that.
func (o *options) survey(ctx context.Context, key string) (*survey.World, error) {
	if err := o.refusePart(ctx); err != nil {
		return nil, err
	}
	heard := o.heard(ctx)
	asking := o.timeout
	if over, bounded := ctx.Deadline(); bounded {
		asking = min(asking, time.Until(over))
	}
	w, err := survey.Take(ctx, o.c, asking*3/5, key)
	if err != nil && !heard {
		err = fmt.Errorf("%w; the server where it would subscribe does not answer, and another try may find another one", err)
	}
	return w, err
}

// A Reason is the output of why as JSON.
type Reason struct {
	Version   int      `json:"version"`
	Key       string   `json:"key"`
	Holders   []Holder `json:"holders"`
	Many      int      `json:"many,omitempty"` // as of a Lock
	Chains    []Link   `json:"waiters"`
	Deadlocks []Circle `json:"deadlocks"` // the deadlocks of the waiters
	Silent    []string `json:"silent,omitempty"`
	Mute      []string `json:"mute,omitempty"`
	Omitted   int      `json:"omitted,omitempty"`
	survey.Others
}

func why(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, "")
		if err != nil {
			return 0, err
		}
		key := survey.KeyOf(o.args[0])
		if w.Omitted > 0 { // of one key, a process names more calls
			if of, err := o.survey(ctx, key); err == nil {
				w.Replace(key, of)
			}
		}
		if err := w.ReadLock(ctx, o.c, key, o.timeout/6); err != nil {
			return 0, err
		}
		r := Reason{
			Version: JSONVersion, Key: key, Holders: []Holder{}, Chains: []Link{}, Deadlocks: []Circle{},
			Silent: w.Silent, Mute: w.Mute, Omitted: w.Omitted,
		}
		l := w.Locks[key]
		if l == nil {
			if o.json {
				r.Key = survey.JSONKey(key)
				o.print(r)
			}
			return o.fail(exitFound, fmt.Errorf("nobody holds %s or waits for it", quoted(key))), nil
		}
		g := w.Graph()
		r.Holders, r.Many, r.Others, r.Chains = append(r.Holders, l.Holders...), l.Many, l.Others, g.Chains(l)
		for _, c := range g.Circles() {
			if slices.ContainsFunc(c, func(l Link) bool { return l.Key == key }) {
				r.Deadlocks = append(r.Deadlocks, c)
			}
		}
		if o.json {
			r.Key = survey.JSONKey(key)
			o.print(r)
			return exitOK, nil
		}
		o.explain(r)
		return exitOK, nil
	})
}

func (o *options) explain(r Reason) {
	now := time.Now()
	if len(r.Chains) == 0 {
		fmt.Fprintf(o.Stdout, "Nobody waits for %s.\n", quoted(r.Key))
		for _, h := range r.Holders {
			fmt.Fprintf(o.Stdout, "  held by %s\n", clean(hasIt(h, now)))
		}
		writeMany(o.Stdout, r.Many, "  ")
		writeOthers(o.Stdout, r.Others, "  ")
	}
	for _, c := range r.Chains {
		writeChain(o.Stdout, c, 0, now)
	}
	for _, c := range r.Deadlocks {
		writeCircle(o.Stdout, c, now)
	}
	o.tellSilent(r.Silent, ", so a chain may end too soon")
	o.tellMute(r.Mute)
	o.tellOmitted(r.Omitted, ", so a chain may end too soon")
}

// tellSilent names the processes that did not answer, and the consequence.
func (o *options) tellSilent(ids []string, means string) {
	if len(ids) > 0 {
		fmt.Fprintf(o.Stderr, "%s did not answer%s: %s\n", count(len(ids), "process", "processes"), means, clean(strings.Join(ids, ", ")))
	}
}

// tellMute names the servers that did not answer, and the consequence.
func (o *options) tellMute(addrs []string) {
	if len(addrs) > 0 {
		fmt.Fprintf(o.Stderr, "%s did not answer, so locks there, and processes that listen there, may be missing: %s\n",
			count(len(addrs), "server", "servers"), clean(strings.Join(addrs, ", ")))
	}
}

// tellOmitted says how many locks and calls processes left out, and the consequence.
func (o *options) tellOmitted(n int, means string) {
	if n > 0 {
		fmt.Fprintf(o.Stderr, "Processes did not name %s%s.\n", count(n, "lock or call", "locks and calls"), means)
	}
}

// hasIt describes a holder, and since when it holds.
func hasIt(h Holder, now time.Time) string {
	text := h.String()
	if h.Name != "" {
		text = h.Name + " of " + text
	}
	switch {
	case h.Lingers:
		text += ", where no call has it: it lingers"
	case h.Since != nil:
		text += ", for " + since(h.Since, now)
	}
	if h.Gone {
		text += ", gone; the lease " + ends(h.LeftMS)
	}
	return text
}

// writeMany says that there are too many holders to show, if there are.
func writeMany(w io.Writer, many int, indent string) {
	if many > 0 {
		fmt.Fprintf(w, "%sheld by %s, too many to show\n", indent, count(many, "owner", "owners"))
	}
}

// belong says whose the permits are that no process names.
func belong(of survey.Others) string {
	text := count(of.Permits, "permit belongs to a process that does not answer, or to a Java program", "permits belong to processes that do not answer, or to Java programs")
	if of.AtMost {
		text = "at most " + text
	}
	return text
}

// writeOthers says whose the permits are that no process names, if there are any.
func writeOthers(w io.Writer, of survey.Others, indent string) {
	if of.Permits > 0 {
		fmt.Fprintf(w, "%s%s\n", indent, belong(of))
	}
}

// waits describes a waiter, and how long it has waited.
func waits(w Waiter, now time.Time) string {
	text := w.String()
	if w.Name != "" {
		text = w.Name + " of " + text
	}
	return text + " has waited for " + since(w.Since, now)
}

func writeChain(w io.Writer, l Link, depth int, now time.Time) {
	indent := strings.Repeat("  ", depth)
	switch {
	case l.Circle:
		fmt.Fprintf(w, "%s%s, see above: a deadlock\n", indent, clean(waits(l.Waiter, now))+" for "+quoted(l.Key))
		return
	case l.Above:
		fmt.Fprintf(w, "%s%s, see above\n", indent, clean(waits(l.Waiter, now))+" for "+quoted(l.Key))
		return
	}
	fmt.Fprintf(w, "%s%s\n", indent, clean(waits(l.Waiter, now))+" for "+quoted(l.Key))
	writeMany(w, l.Many, indent+"  ")
	writeOthers(w, l.Others, indent+"  ")
	if l.Unknown && l.Many == 0 && l.Others.Permits == 0 {
		fmt.Fprintf(w, "%s  nobody is known to have it\n", indent)
	}
	for _, h := range l.Holders {
		fmt.Fprintf(w, "%s  held by %s\n", indent, clean(hasIt(h, now)))
	}
	for _, c := range l.Chains {
		writeChain(w, c, depth+2, now)
	}
}

func writeCircle(w io.Writer, c Circle, now time.Time) {
	fmt.Fprintf(w, "Deadlock of %s:\n", count(len(c), "call", "calls"))
	for i, l := range c {
		fmt.Fprintf(w, "  %s\n", clean(waits(l.Waiter, now)))
		fmt.Fprintf(w, "    for %s\n", quoted(l.Key))
		has := c[(i+1)%len(c)].Waiter
		for _, h := range l.Holders {
			if slices.ContainsFunc(has.Under, func(ref lockrt.LeaseRef) bool { return ref.Owner == h.Owner }) {
				fmt.Fprintf(w, "    which has %s\n", clean(hasIt(h, now)))
			}
		}
	}
}

// A Deadlocks is the output of deadlocks as JSON.
type Deadlocks struct {
	Version   int      `json:"version"`
	Deadlocks []Circle `json:"deadlocks"`
	Silent    []string `json:"silent,omitempty"`
	Mute      []string `json:"mute,omitempty"`
	Omitted   int      `json:"omitted,omitempty"`
}

func deadlocks(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, "")
		if err != nil {
			return 0, err
		}
		circles := w.Graph().Circles()
		code := exitOK
		if len(circles) > 0 {
			code = exitFound
		}
		if o.json {
			o.print(Deadlocks{JSONVersion, circles, w.Silent, w.Mute, w.Omitted})
			return code, nil
		}
		for _, c := range circles {
			writeCircle(o.Stdout, c, w.At)
		}
		if len(circles) == 0 {
			fmt.Fprintln(o.Stdout, "No deadlock.")
		}
		o.tellSilent(w.Silent, ", and may be in one")
		o.tellMute(w.Mute)
		o.tellOmitted(w.Omitted, ", and may have left out calls of a deadlock")
		return code, nil
	})
}
