package main_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A lattice is some interfaces that embed each other, in up to three packages. Each declares or embeds methods of one signature.
type lattice struct {
	*rand.Rand
	id    int
	faces []*face // each embeds earlier ones only
}

// A face is an interface.
type face struct {
	name    string
	pkg     int
	form    string // literal, alias of a literal, or alias or definition by the name of another
	generic bool
	methods []*declared
	embeds  []*face
	service *said              // or nil
	others  map[string][]*said // by method
}

// declared is a method that an interface declares, with the names of its two parameters.
type declared struct {
	method string
	names  []string
	said   []*said
}

// said is a directive.
type said struct {
	file      string
	line      int
	nolock    bool
	key, kind string
	options   map[string]string
}

// pick draws one of several.
func (l *lattice) pick(from ...string) string { return from[l.IntN(len(from))] }

// newLattice draws a lattice.
func newLattice(seed uint64, id int) *lattice {
	l := &lattice{Rand: rand.New(rand.NewPCG(seed, uint64(id))), id: id}
	packages := 1 + l.IntN(3)
	n := 2 + l.IntN(7)
	for i := range n {
		l.faces = append(l.faces, l.face(i, i*packages/n))
	}
	// Most of what would have no effect gets one.
	used := map[*face]bool{}
	for _, f := range slices.Backward(l.faces) {
		if f.service == nil && !used[f] && len(f.directives()) > 0 && l.IntN(4) > 0 {
			f.service = l.options("service")
		}
		if f.service != nil && l.IntN(4) > 0 && !slices.ContainsFunc([]string{"M0", "M1", "M2"}, f.locks) {
			f.service = nil
		}
		if f.service != nil {
			f.reach(used)
		}
	}
	return l
}

func (l *lattice) face(i, pkg int) *face {
	f := &face{name: fmt.Sprintf("L%dI%d", l.id, i), pkg: pkg, form: "literal", others: map[string][]*said{}}
	f.generic = l.IntN(6) == 0
	earlier := slices.DeleteFunc(slices.Clone(l.faces), func(e *face) bool { return f.generic && !e.generic })
	if len(earlier) > 0 && l.IntN(4) == 0 {
		f.form = l.pick("alias", "named")
		if f.generic {
			f.form = "named"
		}
		f.embeds = []*face{earlier[l.IntN(len(earlier))]}
	} else {
		if !f.generic && l.IntN(8) == 0 {
			f.form = "alias literal"
		}
		l.Shuffle(len(earlier), func(i, j int) { earlier[i], earlier[j] = earlier[j], earlier[i] })
		f.embeds = earlier[:min(len(earlier), l.IntN(4))]
		for k := range 3 {
			if method := fmt.Sprintf("M%d", k); l.IntN(3) == 0 || len(f.embeds) == 0 && k == i%3 {
				f.methods = append(f.methods, l.declared(method))
			}
		}
	}
	if l.IntN(2) == 0 {
		f.service = l.options("service")
		if l.IntN(3) == 0 {
			f.service.options["prefix"] = l.pick("p", "q")
		}
	}
	for k := range 3 {
		method := fmt.Sprintf("M%d", k)
		own := slices.ContainsFunc(f.methods, func(d *declared) bool { return d.method == method })
		if names := f.names(method); !own && len(names) > 0 && l.IntN(5) == 0 {
			f.others[method] = l.directives(names[0])
		}
	}
	return f
}

func (l *lattice) declared(method string) *declared {
	d := &declared{method: method, names: strings.Fields(l.pick("from to", "from to", "to from", "src dst", "from dst"))}
	if l.IntN(5) < 2 {
		d.said = l.directives(d.names)
	}
	return d
}

// locks reports whether a method has a lock.
func (f *face) locks(method string) bool {
	return slices.ContainsFunc(f.claims(method), func(c claim) bool { return !c.said[0].nolock })
}

// directives draws a nolock, or one lock or two.
func (l *lattice) directives(names []string) []*said {
	if l.IntN(8) == 0 {
		return []*said{{nolock: true, options: map[string]string{}}}
	}
	if l.IntN(3) > 0 {
		// The usual lock, so that it often reaches a method in several ways.
		return []*said{{key: "usual:{" + names[l.id%2] + "}", options: map[string]string{}}}
	}
	// All locks of a key are of one kind, so the key says which.
	var all []*said
	no := l.IntN(5)
	for i := range 1 + l.IntN(7)/6 {
		d := &said{options: map[string]string{}}
		if i == 0 {
			d = l.options("lock")
		}
		k := (no + i) % 5
		d.kind = []string{"", "fair", l.pick("read", "write"), "permit", "mutex"}[k]
		d.key = fmt.Sprintf("k%d", k) + l.pick(":{"+names[0]+"}", ":{"+names[1]+"}", ":{"+names[0]+"}:{"+names[1]+"}", "")
		if d.kind != "" {
			d.options["kind"] = d.kind
		}
		if d.kind == "permit" {
			d.options["permits"] = "2"
		}
		if (d.kind == "" || d.kind == "fair" || d.kind == "write") && l.IntN(6) == 0 {
			d.options["fence"] = ""
		}
		all = append(all, d)
	}
	if len(all) == 1 && (all[0].kind == "" || all[0].kind == "mutex") && l.IntN(5) == 0 {
		all[0].options["min"] = "1s"
	}
	return all
}

// options draws those that interfaces and locks have.
func (l *lattice) options(verb string) *said {
	d := &said{options: map[string]string{}}
	if l.IntN(4) == 0 {
		d.options["wait"] = l.pick("1s", "2s", "1000ms")
		if verb == "lock" && l.IntN(2) == 0 {
			d.options["busy"] = l.pick("skip", "error")
		}
	}
	if l.IntN(5) == 0 {
		d.options[l.pick("watchdog", "lease")] = l.pick("5s", "6s")
	}
	if l.IntN(6) == 0 {
		d.options["lost"] = l.pick("report", "cancel")
	}
	return d
}

// packageDefaults are those of the three packages.
var packageDefaults = []map[string]string{{"watchdog": "9s"}, {}, {"lost": "report", "wait": "7s"}}

// names are those of the parameters of a method, of each declaration of it, in the order in which the compiler looks at them.
func (f *face) names(method string) [][]string {
	var all [][]string
	for _, d := range f.methods {
		if d.method == method {
			all = append(all, d.names)
		}
	}
	for _, e := range f.embeds {
		all = append(all, e.names(method)...)
	}
	return all
}

// A claim is one way in which a lock, or a nolock, reaches a method.
type claim struct {
	by    *face // the interface of the directive
	said  []*said
	names []string
	over  []*face // annotated interfaces that inherit it, the last first
}

// claims implements the rule, for one method of an interface: directives above its declaration count, else those above
// the interface, else those of the embedded interfaces.
func (f *face) claims(method string) []claim {
	for _, d := range f.methods {
		if d.method == method && len(d.said) > 0 {
			return []claim{{by: f, said: d.said, names: d.names}}
		}
	}
	if others := f.others[method]; len(others) > 0 {
		return []claim{{by: f, said: others, names: f.names(method)[0]}}
	}
	var all []claim
	for _, e := range f.embeds {
		for _, c := range e.claims(method) {
			if f.service != nil {
				c.over = append([]*face{f}, c.over...)
			}
			all = append(all, c)
		}
	}
	return all
}

// asks is the request of a call of the method with A and B to the runtime, in the wrapper of f.
func (c claim) asks(f *face) string {
	if c.said[0].nolock {
		return "nothing"
	}
	var keys []string
	for _, d := range c.said {
		key := d.key
		for i, value := range []string{"A", "B"} {
			key = strings.ReplaceAll(key, "{"+c.names[i]+"}", value)
		}
		if c.by.service != nil && c.by.service.options["prefix"] != "" {
			key = c.by.service.options["prefix"] + ":" + key
		}
		kind, permits := cmp.Or(d.kind, "mutex"), 0
		if kind == "permit" {
			permits = 2
		}
		_, fence := d.options["fence"]
		keys = append(keys, fmt.Sprintf("%s kind %s permits %d fence %v", key, kind, permits, fence))
	}
	slices.Sort(keys)
	return fmt.Sprintf("%s; wait %s watchdog %s lease %s min %s report %v", strings.Join(keys, ", "),
		map[string]string{"": "-1", "1s": "1000000000", "1000ms": "1000000000", "2s": "2000000000", "7s": "7000000000"}[c.option(f, "wait")],
		orNone(c.option(f, "watchdog", "lease")), orNone(c.option(f, "lease", "watchdog")), orNone(c.option(f, "min")), c.option(f, "lost") == "report")
}

func orNone(d string) string {
	if d == "" {
		return "0s"
	}
	return d
}

// option is the value of an option that counts: that of the first one that says something about it, or about what excludes it.
func (c claim) option(f *face, name string, excludes ...string) string {
	var levels []map[string]string
	for _, o := range c.over {
		levels = append(levels, o.service.options)
	}
	for _, d := range c.said {
		levels = append(levels, d.options)
	}
	if c.by.service != nil {
		levels = append(levels, c.by.service.options)
	}
	for _, options := range append(levels, packageDefaults[c.by.pkg], packageDefaults[f.pkg]) {
		for _, other := range append(excludes, name) {
			if value := options[other]; value != "" {
				return options[name]
			}
		}
	}
	return ""
}

// place describes where c differs from another one.
func (c claim) place(other claim) string {
	if c.said[0] == other.said[0] {
		for _, o := range c.over {
			if !slices.Contains(other.over, o) {
				return o.service.place()
			}
		}
	}
	return c.said[0].place()
}

func (d *said) place() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// expect is what the rule says about a lattice: what each call of each wrapper asks for, and what is wrong.
func (l *lattice) expect() (calls map[string]string, mistakes []string) {
	calls = map[string]string{}
	used := map[*face]bool{}
	for _, f := range l.faces {
		if f.service == nil {
			continue
		}
		f.reach(used)
		before, locked := len(mistakes), false
		for k := range 3 {
			method := fmt.Sprintf("M%d", k)
			if len(f.names(method)) == 0 {
				continue
			}
			claims := f.claims(method)
			name, asks := f.name+"."+method, "nothing"
			if len(claims) > 0 {
				asks = claims[0].asks(f)
			}
			agree := true
			for i, c := range claims {
				first := slices.IndexFunc(claims, func(other claim) bool { return other.signature(f) == c.signature(f) })
				if first == i && i > 0 {
					agree = false
					mistakes = append(mistakes, fmt.Sprintf("%s: %s and %s", name, c.place(claims[0]), claims[0].place(c)))
				}
			}
			if agree && len(claims) > 0 {
				mistakes = append(mistakes, claims[0].twoMeanings(method)...)
			}
			locked = locked || asks != "nothing"
			calls[name] = asks + claimsBusy(claims)
		}
		if !locked && len(mistakes) == before {
			mistakes = append(mistakes, f.name+": no lock")
		}
	}
	for _, f := range l.faces {
		if used[f] {
			continue
		}
		for _, d := range f.directives() {
			mistakes = append(mistakes, d.place()+": no effect")
		}
	}
	return calls, mistakes
}

// signature is what two ways to one lock must have in common: the request, and the meaning of a busy lock.
func (c claim) signature(f *face) string { return c.asks(f) + claimsBusy([]claim{c}) }

func claimsBusy(claims []claim) string {
	if len(claims) > 0 && claims[0].said[0].options["busy"] == "skip" {
		return " or skips"
	}
	return ""
}

// reach notes what an interface embeds.
func (f *face) reach(used map[*face]bool) {
	used[f] = true
	for _, e := range f.embeds {
		e.reach(used)
	}
}

func (f *face) directives() []*said {
	var all []*said
	for _, d := range f.methods {
		all = append(all, d.said...)
	}
	for _, others := range f.others {
		all = append(all, others...)
	}
	return all
}

// twoMeanings lists the directives above an interface that name a parameter which declarations have at two positions.
func (c claim) twoMeanings(method string) []string {
	var all []string
	if len(c.by.others[method]) == 0 {
		return nil
	}
	for _, d := range c.said {
		if slices.ContainsFunc(c.by.names(method), func(names []string) bool {
			return slices.ContainsFunc(c.names, func(name string) bool {
				other := slices.Index(names, name)
				return other >= 0 && other != slices.Index(c.names, name) && strings.Contains(d.key, "{"+name+"}")
			})
		}) {
			all = append(all, d.place()+": two meanings")
		}
	}
	return all
}
