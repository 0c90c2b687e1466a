package survey

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/templates/model"
)

// Explain writes all there is to know about a method, the methods of an interface, or a key: the name can be that of a
// method or an interface, with as much in front of it as is needed (Pay, Service.Pay, orders.Service.Pay), or a key as
// Redis has it (order:42), or its shape (order:{}). It reports whether there is such a thing.
func (s *Survey) Explain(w io.Writer, name string) (bool, error) {
	var b strings.Builder
	found := false
	for _, use := range s.uses {
		method := "." + use.Name
		iface, _, _ := cutLast(method, ".")
		if strings.HasSuffix(method, "."+name) || strings.HasSuffix(iface, "."+name) {
			found = true
			s.explainUse(&b, use)
		}
	}
	if !found {
		found = s.explainKey(&b, name)
	}
	_, err := io.WriteString(w, b.String())
	return found, err
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// explainKey says who locks a key.
func (s *Survey) explainKey(b *strings.Builder, name string) bool {
	asShape, _ := named(name)
	found := false
	for _, k := range s.keys {
		if k.shape.text != asShape && !k.shape.takes(name) {
			continue
		}
		if !found {
			fmt.Fprintf(b, "%s is locked by\n", name)
		}
		found = true
		fmt.Fprintf(b, "\t%s with key %s (%s)\n", k.use.Name, k.Text, s.place(k.Directive.Slash))
	}
	return found
}

// explainUse says what a call of a method does before it calls the method.
func (s *Survey) explainUse(b *strings.Builder, use check.Use) {
	fmt.Fprintf(b, "%s (%s)\n", use.Name, s.place(use.Pos))
	if len(use.Keys) == 0 {
		b.WriteString("\tis not locked\n")
		return
	}
	for _, k := range use.Keys {
		s.explainUsed(b, use, key{k, shapeOf(k.Key), use})
	}
	if len(use.Keys) > 1 {
		b.WriteString("\ttakes them together, all or none, in the order of the keys\n")
	}
	given := map[string]bool{}
	for _, g := range options(use) {
		given[g.Name] = true
		fmt.Fprintf(b, "\t%s, from %s (%s)\n", g.Text(), g.By, s.place(g.Pos))
	}
	if !given["wait"] {
		b.WriteString("\twait=ctx, the default: until the context ends\n")
	}
	if !given["watchdog"] && !given["lease"] {
		b.WriteString("\twatchdog of the client's options, the default\n")
	}
}

func (s *Survey) explainUsed(b *strings.Builder, use check.Use, k key) {
	fmt.Fprintf(b, "\tlocks %s%s\n", k.Text, kindOf(use, k.Key))
	placeholders := placeholder.FindAllString(k.Text, -1)
	for i, v := range k.shape.values() {
		name := "a value"
		if v.Func != nil {
			name = "what " + v.Func.Name + " returns"
		} else if i < len(placeholders) {
			name = placeholders[i]
		}
		fmt.Fprintf(b, "\t\t%s is of type %s, %s\n", name, short(v.Type), manner(v))
	}
	for _, other := range s.keys {
		if other.identity() == k.identity() && other.use.Name != use.Name {
			fmt.Fprintf(b, "\t\t%s locks it too, with %s (%s)\n", other.use.Name, other.Text, s.place(other.Directive.Slash))
		}
	}
	for _, before := range texts(s.after(k)) {
		fmt.Fprintf(b, "\t\tis taken after %s\n", before)
	}
}

// manner says how a value is written.
func manner(v *model.Value) string {
	how := ""
	switch v.Leaf {
	case model.Int, model.Uint:
		how = "written in decimal"
	case model.Bool:
		how = "written as true or false"
	case model.Hex:
		how = "written in hexadecimal"
	case model.Raw:
		how = "taken as it is"
	case model.Open:
		how = "written as its type argument is"
	default:
		how = "escaped"
	}
	one := v
	if v.Each != nil {
		one = v.Each
	}
	if one.CanBeEmpty() && !one.Empty {
		how += ", an error if empty"
	}
	if v.Each != nil {
		how += "; one lock for each element"
	}
	return how
}
