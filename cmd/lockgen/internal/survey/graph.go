package survey

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Mermaid writes the graph as GitHub and others draw it in Markdown: which methods take which locks, and which lock is taken under which.
func (s *Survey) Mermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	shapes := s.shapes()
	for i, id := range shapes {
		fmt.Fprintf(&b, "\tlock%d([\"%s\"])\n", i, mermaid(label(shapes, id)))
	}
	id := func(text string) string { return fmt.Sprintf("lock%d", slices.Index(shapes, text)) }
	for i, use := range s.uses {
		if len(use.Keys) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\tmethod%d[\"%s\"]\n", i, mermaid(use.Name))
		for _, k := range use.Keys {
			fmt.Fprintf(&b, "\tmethod%d --> %s\n", i, id(key{k, shapeOf(k.Key), use}.identity()))
		}
	}
	for _, st := range s.known() {
		arrow := "-. then .->"
		if st.after {
			arrow = "== then ==>"
		}
		fmt.Fprintf(&b, "\t%s %s %s\n", id(st.from), arrow, id(st.to))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaid writes a label without what has a meaning in it.
func mermaid(label string) string {
	return strings.NewReplacer(`"`, "#quot;", "#", "#35;", "{", "#123;", "}", "#125;").Replace(label)
}

// DOT writes the graph for graphviz.
func (s *Survey) DOT(w io.Writer) error {
	var b strings.Builder
	b.WriteString("digraph locks {\n\trankdir=LR\n")
	shapes := s.shapes()
	node := func(id string) string { return "lock " + label(shapes, id) }
	for _, id := range shapes {
		fmt.Fprintf(&b, "\t%q [shape=oval]\n", node(id))
	}
	for _, use := range s.uses {
		if len(use.Keys) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\t%q [shape=box]\n", use.Name)
		for _, k := range use.Keys {
			fmt.Fprintf(&b, "\t%q -> %q\n", use.Name, node(key{k, shapeOf(k.Key), use}.identity()))
		}
	}
	for _, st := range s.known() {
		style := "dashed"
		if st.after {
			style = "bold"
		}
		fmt.Fprintf(&b, "\t%q -> %q [label=then style=%s]\n", node(st.from), node(st.to), style)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// label names one of the locks, with its package if there are functions of that name in several.
func label(ids []string, id string) string {
	for _, other := range ids {
		if other != id && shown(other) == shown(id) {
			return strings.Replace(id, madeIn, " of ", 1)
		}
	}
	return shown(id)
}

// known lists the steps between locks of this run.
func (s *Survey) known() []step {
	shapes := s.shapes()
	return slices.DeleteFunc(s.steps(), func(st step) bool { return !slices.Contains(shapes, st.from) })
}
