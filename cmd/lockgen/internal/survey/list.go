package survey

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates/model"
)

// A Row is one method of the list, as JSON has it.
type Row struct {
	Method  string   `json:"method"` // orders.Service.Pay
	Package string   `json:"package"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Keys    []RowKey `json:"keys"`    // none: the method is not locked
	Options []Option `json:"options"` // that are given; for all others the defaults count
}

// A RowKey is a key in a [Row].
type RowKey struct {
	Key     string     `json:"key"`   // order:{o.ID}
	Shape   string     `json:"shape"` // order:{}
	Kind    string     `json:"kind"`  // mutex, read, write, read-write, fair or permit
	Permits int        `json:"permits,omitempty"`
	Fence   bool       `json:"fence,omitempty"`
	Values  []RowValue `json:"values"`
	After   []string   `json:"after,omitempty"`

	manner string // the kind where the options do not have it, or empty
}

// A RowValue is the type of one placeholder.
type RowValue struct {
	Type string `json:"type"`
}

// An Option is one that counts for a method.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"` // empty for a flag
	From  string `json:"from"`  // the directive that gives it: lock, service, locks or defaults
}

// Rows lists all methods, in the order of their places.
func (s *Survey) Rows() []Row {
	rows := []Row{}
	for _, use := range s.uses {
		rows = append(rows, s.row(use))
	}
	return rows
}

func (s *Survey) row(use check.Use) Row {
	p := s.position(use.Pos)
	row := Row{Method: use.Name, File: diag.Relative(s.dir, p.Filename), Line: p.Line, Keys: []RowKey{}, Options: []Option{}}
	if pkg := use.Interface.Pkg(); pkg != nil {
		row.Package = pkg.Path()
	}
	for _, k := range use.Keys {
		sh := shapeOf(k.Key)
		rk := RowKey{
			Key: k.Text, Shape: sh.text, Kind: kindNames[k.Kind], Permits: k.Permits, Fence: k.Fence,
			Values: []RowValue{}, After: texts(s.after(key{k, sh, use})), manner: kindOf(use, k.Key),
		}
		for _, v := range sh.values() {
			rk.Values = append(rk.Values, RowValue{path(v.Type)})
		}
		row.Keys = append(row.Keys, rk)
	}
	for _, g := range options(use) {
		row.Options = append(row.Options, Option{g.Name, g.Value, string(g.By)})
	}
	return row
}

// kindNames are what the kinds are called.
var kindNames = map[model.Kind]string{
	model.Mutex: "mutex", model.Write: "write", model.Read: "read", model.ReadWrite: "read-write", model.Fair: "fair", model.Permit: "permit", model.Multi: "mutex", model.Red: "red",
}

// kindOf says of which kind a key is where the options don't: each has its own, or the type says it.
func kindOf(use check.Use, k *model.Key) string {
	mixed := use.Method.Lock.Mixed()
	switch {
	case !mixed && (use.Verb == directive.Service || k.Kind == model.Mutex || k.Kind == model.Multi):
		return ""
	case mixed && k.Kind == model.Permit:
		return fmt.Sprintf(" (one of %d permits)", k.Permits)
	case mixed && k.Fence:
		return " (" + kindNames[k.Kind] + " fence)"
	}
	return " (" + kindNames[k.Kind] + ")"
}

// own are options that each lock has for itself.
var own = []string{"kind", "permits", "fence"}

// options are those that count for all locks of a method.
func options(use check.Use) []directive.Given {
	if use.Method.Lock == nil || !use.Method.Lock.Mixed() {
		return use.Options
	}
	return slices.DeleteFunc(slices.Clone(use.Options), func(g directive.Given) bool { return slices.Contains(own, g.Name) })
}

// JSON writes the list as an array.
func (s *Survey) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	e.SetEscapeHTML(false)
	return e.Encode(s.Rows())
}

// Table writes the list for a terminal.
func (s *Survey) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "METHOD\tKEYS\tOPTIONS\tPLACE")
	for _, row := range s.Rows() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s:%d\n", row.Method, row.keys("", "-"), row.options("", "-"), row.File, row.Line)
	}
	return t.Flush()
}

// Markdown writes the list for a team's documents.
func (s *Survey) Markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| method | locks | options |\n|---|---|---|\n")
	for _, row := range s.Rows() {
		fmt.Fprintf(&b, "| [`%s`](%s#L%d) | %s | %s |\n", row.Method, row.File, row.Line, row.keys("`", "nothing"), row.options("`", ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// after is the option as it is written.
func (k RowKey) after() string {
	text := "after=" + strings.Join(k.After, " ")
	if len(k.After) > 1 {
		text = strconv.Quote(text)
	}
	return text
}

func (r Row) keys(quote, none string) string {
	var all []string
	for _, k := range r.Keys {
		text := quote + k.Key + quote + k.manner
		if len(r.Keys) > 1 && len(k.After) > 0 {
			text += " (" + k.after() + ")"
		}
		all = append(all, text)
	}
	return joined(all, none)
}

func (r Row) options(quote, none string) string {
	var all []string
	if len(r.Keys) == 1 && len(r.Keys[0].After) > 0 {
		all = append(all, quote+r.Keys[0].after()+quote)
	}
	for _, o := range r.Options {
		text := o.Name
		if o.Value != "" {
			text += "=" + o.Value
		}
		all = append(all, quote+text+quote)
	}
	return joined(all, none)
}

func joined(all []string, none string) string {
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, " ")
}
