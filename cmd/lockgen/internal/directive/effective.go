package directive

import "slices"

// A Given is an option that has an effect on a lock.
type Given struct {
	*Arg
	By Verb // of the directive that gives it: lock, service, locks or defaults
}

// Text is the option as it is written.
func (g Given) Text() string {
	if g.Value == "" {
		return g.Name
	}
	return g.Name + "=" + g.Value
}

// Effective lists the options that count for a method's locks, in the order of the table. Of the levels, whose
// directives can be nil, the first that has an option counts. It omits options that only name things (the key, the
// context).
func Effective(levels ...[]*Directive) []Given {
	var all []Given
	for _, o := range options {
		if !slices.Contains(o.verbs, Lock) || slices.Contains(naming, o.name) {
			continue
		}
		given, level := nearest(levels, o.name)
		if given.Arg == nil {
			continue
		}
		if other, at := nearest(levels, excluded[o.name]); other.Arg != nil && at < level {
			continue
		}
		all = append(all, given)
	}
	return all
}

// Nearest is the option in the first level that has it, or nil.
func Nearest(levels [][]*Directive, name string) *Arg {
	given, _ := nearest(levels, name)
	return given.Arg
}

var (
	naming   = []string{"key", "after", "ctx", "method"}
	excluded = map[string]string{"watchdog": "lease", "lease": "watchdog"}
)

// nearest finds the option in the first level that has it.
func nearest(levels [][]*Directive, name string) (Given, int) {
	for i, level := range levels {
		for _, d := range level {
			if d == nil {
				continue
			}
			if a := d.Arg(name); a != nil {
				return Given{a, d.Verb}, i
			}
		}
	}
	return Given{}, 0
}
