package ctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A node is a call that waits: a waiter of a lock.
type node struct {
	lock *Lock
	n    int // which of its waiters
}

func (n node) waiter() Waiter { return n.lock.Waiters[n.n] }

// A graph is who waits for whom.
type graph struct {
	w     *world
	nodes []node
	under map[string][]node // by the owner of a lease: the calls that wait under it
	stuck map[node]bool     // calls that cannot go on unless somebody gives up, since they are in a circle or behind one
}

func newGraph(w *world) *graph {
	g := &graph{w: w, under: map[string][]node{}, stuck: map[node]bool{}}
	for _, key := range sortedKeys(w.locks) {
		l := w.locks[key]
		for i, c := range l.Waiters {
			n := node{l, i}
			g.nodes = append(g.nodes, n)
			g.stuck[n] = true
			for _, ref := range c.Under {
				g.under[ref.Owner] = append(g.under[ref.Owner], n)
			}
		}
	}
	for changed := true; changed; { // who may go on is let go, until nothing changes
		changed = false
		for _, n := range g.nodes {
			if g.stuck[n] && !g.blocked(n) {
				g.stuck[n], changed = false, true
			}
		}
	}
	return g
}

// blockers are the holders that keep a call waiting.
func (n node) blockers() []Holder {
	var all []Holder
	for _, h := range n.lock.Holders {
		if n.waiter().Kind == "read" && n.lock.Kind == "read" {
			continue // readers do not keep out readers
		}
		all = append(all, h)
	}
	return all
}

// blocked reports whether no one that it waits for can go on: all who have permits, or any who has a lock.
func (g *graph) blocked(n node) bool {
	blockers := n.blockers()
	waits := func(h Holder) bool {
		return slices.ContainsFunc(g.under[h.Owner], func(m node) bool { return g.stuck[m] })
	}
	if n.waiter().Kind == "permit" {
		return len(blockers) > 0 && !slices.ContainsFunc(blockers, func(h Holder) bool { return !waits(h) })
	}
	return slices.ContainsFunc(blockers, waits)
}

// next returns why a call that is stuck is: a holder, and the call under its lease.
func (g *graph) next(n node) (Holder, node, bool) {
	for _, h := range n.blockers() {
		for _, m := range g.under[h.Owner] {
			if g.stuck[m] {
				return h, m, true
			}
		}
	}
	return Holder{}, node{}, false
}

// circles returns each circle once, as the calls in it, beginning with the one that has waited for longest.
func (g *graph) circles() (all [][]node) {
	done := map[node]bool{}
	for _, n := range g.nodes {
		if !g.stuck[n] || done[n] {
			continue
		}
		var path []node
		at := n
		for !done[at] && !slices.Contains(path, at) {
			path = append(path, at)
			_, m, ok := g.next(at)
			if !ok {
				break
			}
			at = m
		}
		if i := slices.Index(path, at); i >= 0 {
			circle := path[i:]
			first := 0
			for j, m := range circle {
				if older(m.waiter().Since, circle[first].waiter().Since) < 0 {
					first = j
				}
			}
			all = append(all, slices.Concat(circle[first:], circle[:first]))
		}
		for _, m := range path {
			done[m] = true
		}
	}
	return all
}

// A Circle is a deadlock, as -json shows it: each waits for what the next one has.
type Circle []Link

// A Link is one call of a chain, and who has what it waits for.
type Link struct {
	Key     string   `json:"key"` // what it waits for
	Waiter  Waiter   `json:"waiter"`
	Holders []Holder `json:"holders"`           // who has it
	Stuck   bool     `json:"stuck,omitempty"`   // it is in a circle, or behind one
	Chains  []Link   `json:"behind,omitempty"`  // what the holders wait for
	Circle  bool     `json:"circle,omitempty"`  // it is in the chain already: the chain ends here
	Unknown bool     `json:"unknown,omitempty"` // nobody is known to have it
}

func (g *graph) link(n node) Link {
	return Link{Key: n.lock.Key, Waiter: n.waiter(), Holders: n.blockers(), Stuck: g.stuck[n], Unknown: len(n.blockers()) == 0}
}

func (g *graph) asCircles() []Circle {
	all := []Circle{}
	for _, c := range g.circles() {
		var circle Circle
		for _, n := range c {
			circle = append(circle, g.link(n))
		}
		all = append(all, circle)
	}
	return all
}

// mostDeep is how far a chain is followed.
const mostDeep = 64

// chain follows a call to the end.
func (g *graph) chain(n node, path []node) Link {
	l := g.link(n)
	if slices.Contains(path, n) || len(path) >= mostDeep {
		l.Circle = true
		return l
	}
	path = append(slices.Clip(path), n)
	for _, h := range n.blockers() {
		for _, m := range g.under[h.Owner] {
			l.Chains = append(l.Chains, g.chain(m, path))
		}
	}
	return l
}

// A Reason is what why prints as JSON.
type Reason struct {
	Version   int      `json:"version"`
	Key       string   `json:"key"`
	Holders   []Holder `json:"holders"`
	Chains    []Link   `json:"waiters"`
	Deadlocks []Circle `json:"deadlocks"` // in which the waiters are
	Silent    []string `json:"silent,omitempty"`
}

func why(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, "")
		if err != nil {
			return 0, err
		}
		key := o.args[0]
		if w.locks[key] == nil {
			if err := o.read(ctx, w, []string{key}); err != nil {
				return 0, err
			}
		}
		l := w.locks[key]
		if l == nil {
			return o.fail(exitFound, fmt.Errorf("nobody holds %s or waits for it", key)), nil
		}
		g := newGraph(w)
		r := Reason{Version: JSONVersion, Key: key, Holders: l.Holders, Chains: []Link{}, Deadlocks: []Circle{}, Silent: w.silent}
		for i := range l.Waiters {
			r.Chains = append(r.Chains, g.chain(node{l, i}, nil))
		}
		for _, c := range g.asCircles() {
			if slices.ContainsFunc(c, func(l Link) bool { return l.Key == key }) {
				r.Deadlocks = append(r.Deadlocks, c)
			}
		}
		if o.json {
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
		fmt.Fprintf(o.Stdout, "Nobody waits for %s.\n", clean(r.Key))
		for _, h := range r.Holders {
			fmt.Fprintf(o.Stdout, "  held by %s\n", clean(h.about(now)))
		}
	}
	for _, c := range r.Chains {
		writeChain(o.Stdout, c, 0, now)
	}
	for _, c := range r.Deadlocks {
		writeCircle(o.Stdout, c, now)
	}
	o.tellSilent(r.Silent, ", so a chain may end too soon")
}

// tellSilent names the processes that did not answer, and what that means.
func (o *options) tellSilent(ids []string, means string) {
	if len(ids) > 0 {
		fmt.Fprintf(o.Stderr, "%s did not answer%s: %s\n", count(len(ids), "process", "processes"), means, clean(strings.Join(ids, ", ")))
	}
}

// about says who has something, and since when.
func (h Holder) about(now time.Time) string {
	text := h.String()
	if h.Name != "" {
		text = h.Name + " of " + text
	}
	if h.Since != nil {
		text += ", for " + since(h.Since, now)
	}
	if h.Gone {
		text += ", gone; the lease ends in " + left(h.LeftMS)
	}
	return text
}

func (w Waiter) about(now time.Time) string {
	text := w.String()
	if w.Name != "" {
		text = w.Name + " of " + text
	}
	return text + " has waited for " + since(w.Since, now)
}

func writeChain(w io.Writer, l Link, depth int, now time.Time) {
	indent := strings.Repeat("  ", depth)
	if l.Circle {
		fmt.Fprintf(w, "%s%s, see above: a deadlock\n", indent, clean(l.Waiter.about(now)+" for "+l.Key))
		return
	}
	fmt.Fprintf(w, "%s%s\n", indent, clean(l.Waiter.about(now)+" for "+l.Key))
	if l.Unknown {
		fmt.Fprintf(w, "%s  nobody is known to have it\n", indent)
	}
	for _, h := range l.Holders {
		fmt.Fprintf(w, "%s  held by %s\n", indent, clean(h.about(now)))
	}
	for _, c := range l.Chains {
		writeChain(w, c, depth+2, now)
	}
}

func writeCircle(w io.Writer, c Circle, now time.Time) {
	fmt.Fprintf(w, "Deadlock of %s:\n", count(len(c), "call", "calls"))
	for i, l := range c {
		fmt.Fprintf(w, "  %s\n", clean(l.Waiter.about(now)))
		fmt.Fprintf(w, "    for %s\n", clean(l.Key))
		has := c[(i+1)%len(c)].Waiter
		for _, h := range l.Holders {
			if slices.ContainsFunc(has.Under, func(ref ref) bool { return ref.Owner == h.Owner }) {
				fmt.Fprintf(w, "    which has %s\n", clean(h.about(now)))
			}
		}
	}
}

// A Deadlocks is what deadlocks prints as JSON.
type Deadlocks struct {
	Version   int      `json:"version"`
	Deadlocks []Circle `json:"deadlocks"`
	Silent    []string `json:"silent,omitempty"`
}

func deadlocks(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, "")
		if err != nil {
			return 0, err
		}
		circles := newGraph(w).asCircles()
		code := exitOK
		if len(circles) > 0 {
			code = exitFound
		}
		if o.json {
			o.print(Deadlocks{JSONVersion, circles, w.silent})
			return code, nil
		}
		for _, c := range circles {
			writeCircle(o.Stdout, c, w.at)
		}
		if len(circles) == 0 {
			fmt.Fprintln(o.Stdout, "No deadlock.")
		}
		o.tellSilent(w.silent, ", and may be in one")
		return code, nil
	})
}
