package survey

import (
	"fmt"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

// Summary says of each service how many of its methods are locked and how many need no lock by their nolock, and names the rest:
//
//	orders.Service: 3 locked, 1 nolock, 1 not: Find
func (s *Survey) Summary() []string {
	type tally struct {
		name         string
		locked, none int
		rest         []string
	}
	var order []*tally
	services := map[string]*tally{}
	for _, use := range s.uses {
		if use.Verb != directive.Service {
			continue
		}
		id := path(use.Interface.Type())
		t := services[id]
		if t == nil {
			t = &tally{name: strings.TrimSuffix(use.Name, "."+use.Method.Name)}
			services[id] = t
			order = append(order, t)
		}
		switch {
		case len(use.Keys) > 0:
			t.locked++
		case use.NoLock:
			t.none++
		default:
			t.rest = append(t.rest, use.Method.Name)
		}
	}
	lines := make([]string, len(order))
	for i, t := range order {
		lines[i] = fmt.Sprintf("%s: %d locked", t.name, t.locked)
		if t.none > 0 {
			lines[i] += fmt.Sprintf(", %d nolock", t.none)
		}
		if len(t.rest) > 0 {
			lines[i] += fmt.Sprintf(", %d not: %s", len(t.rest), strings.Join(t.rest, ", "))
		}
	}
	return lines
}
