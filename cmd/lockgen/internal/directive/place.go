package directive

import (
	"go/ast"
	"go/token"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// A File is what the directives of one file stand on.
type File struct {
	Defaults   *Directive
	Interfaces []*Interface                   // with service or locks, in source order
	Methods    map[*ast.Field][]*Directive    // lock and nolock on methods of any interface of the file
	Owners     map[*ast.Field]string          // the interface of each such method
	Others     map[*ast.TypeSpec][]*Directive // lock and nolock above an interface, for methods that it embeds
}

// None reports whether a file has no directives.
func (f *File) None() bool {
	return f.Defaults == nil && len(f.Interfaces) == 0 && len(f.Methods) == 0 && len(f.Others) == 0
}

// Functions goes through the functions that make keys.
func (f *File) Functions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, all := range [][][]*Directive{slices.Collect(maps.Values(f.Methods)), slices.Collect(maps.Values(f.Others))} {
			for _, d := range slices.Concat(all...) {
				if name, ok := d.Function(); ok && !yield(name) {
					return
				}
			}
		}
	}
}

// An Interface is an annotated type declaration. Whether it is an interface, types must tell: it can be declared by another's name.
type Interface struct {
	Spec      *ast.TypeSpec
	Directive *Directive
}

// Wrapper is the name of the type that is generated for a service.
func (i *Interface) Wrapper() string {
	if i.Directive.Name != nil {
		return i.Directive.Name.Value
	}
	return Prefixed("Locked", i.Spec.Name.Name)
}

// Prefixed puts a word in front of a name, so that both together are exported if the name is.
func Prefixed(prefix, name string) string {
	r, n := utf8.DecodeRuneInString(name)
	if !unicode.IsUpper(r) {
		prefix = strings.ToLower(prefix[:1]) + prefix[1:]
	}
	return prefix + string(unicode.ToUpper(r)) + name[n:]
}

// Collect reads all directives of a file. It notes misplaced directives in list.
func Collect(list *diag.List, file *ast.File) *File {
	c := &collector{
		list:   list,
		file:   file,
		places: map[*ast.CommentGroup]place{},
		out:    &File{Methods: map[*ast.Field][]*Directive{}, Owners: map[*ast.Field]string{}, Others: map[*ast.TypeSpec][]*Directive{}},
	}
	c.survey()
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "/*") {
				inBlock(list, comment, group == file.Doc)
			} else if d := Parse(list, comment); d != nil {
				c.put(d, group)
			} else if p := c.places[group]; p.method != nil || p.spec != nil {
				behindText(list, comment)
			}
		}
	}
	return c.out
}

// In reports whether a file has directives, right or wrong.
func In(fset *token.FileSet, file *ast.File) bool {
	list := diag.New(fset)
	return !Collect(list, file).None() || list.Len() > 0
}

// A place is what a comment group belongs to.
type place struct {
	spec     *ast.TypeSpec // a type
	method   *ast.Field    // a method of the interface spec
	embedded *ast.Field    // an element without a name of the interface spec
	trailing bool          // behind it on its line, not above it
	pkg      bool          // the package comment
	other    string        // anything else, in words
}

type collector struct {
	list   *diag.List
	file   *ast.File
	places map[*ast.CommentGroup]place
	out    *File
}

// survey finds out what each comment group belongs to.
func (c *collector) survey() {
	c.mark(c.file.Doc, place{pkg: true})
	for _, decl := range c.file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			c.mark(decl.Doc, place{other: decl.Name.Name + " is a function"})
		case *ast.GenDecl:
			c.surveyDecl(decl)
		}
	}
}

func (c *collector) surveyDecl(decl *ast.GenDecl) {
	if decl.Lparen.IsValid() {
		c.mark(decl.Doc, place{other: "this is a group of declarations"})
	}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.mark(spec.Doc, place{spec: spec})
			c.mark(spec.Comment, place{spec: spec, trailing: true})
			if !decl.Lparen.IsValid() {
				c.mark(decl.Doc, place{spec: spec})
			}
			c.surveyType(spec)
		case *ast.ValueSpec:
			what := " is a variable"
			if decl.Tok == token.CONST {
				what = " is a constant"
			}
			p := place{other: spec.Names[0].Name + what}
			c.mark(decl.Doc, p)
			c.mark(spec.Doc, p)
			c.mark(spec.Comment, p)
		case *ast.ImportSpec:
			p := place{other: spec.Path.Value + " is an import"}
			c.mark(decl.Doc, p)
			c.mark(spec.Doc, p)
			c.mark(spec.Comment, p)
		}
	}
}

func (c *collector) surveyType(spec *ast.TypeSpec) {
	if iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType); ok {
		for _, f := range iface.Methods.List {
			p := place{spec: spec, method: f}
			if len(f.Names) == 0 {
				p = place{spec: spec, embedded: f}
			}
			c.mark(f.Doc, p)
			p.trailing = true
			c.mark(f.Comment, p)
		}
	}
	ast.Inspect(spec.Type, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			p := place{other: "this is a part of " + spec.Name.Name}
			if len(f.Names) > 0 {
				p.other = f.Names[0].Name + " is a part of " + spec.Name.Name
			}
			c.mark(f.Doc, p)
			c.mark(f.Comment, p)
		}
		return true
	})
}

// mark notes the place of a group; the first mark is the nearest.
func (c *collector) mark(group *ast.CommentGroup, p place) {
	if group == nil {
		return
	}
	if _, ok := c.places[group]; !ok {
		c.places[group] = p
	}
}

// put takes a directive to what it stands on, or notes why it can't.
func (c *collector) put(d *Directive, group *ast.CommentGroup) {
	p, attached := c.places[group]
	switch {
	case !attached:
		c.detached(d, group)
	case p.pkg:
		c.putPackage(d)
	case d.Verb == Defaults:
		c.misplaced(d, "defaults belongs in the package comment, directly above the package clause")
	case p.other != "":
		c.misplaced(d, "%s; %s", home(d.Verb), p.other)
	case p.trailing:
		c.misplaced(d, "%s, in a line of its own", home(d.Verb))
	case p.method != nil:
		c.putMethod(d, p)
	case p.embedded != nil:
		c.misplaced(d, "%s; for an embedded method put it above %s, with method= and the name", home(d.Verb), p.spec.Name.Name)
	default:
		c.putType(d, p.spec)
	}
}

func (c *collector) putPackage(d *Directive) {
	switch {
	case d.Verb != Defaults:
		c.misplaced(d, "%s; this is the package comment, which takes only defaults", home(d.Verb))
	case c.out.Defaults != nil:
		c.misplaced(d, "defaults is given twice")
	default:
		c.out.Defaults = d
	}
}

func (c *collector) putMethod(d *Directive, p place) {
	if d.Verb == Service || d.Verb == Locks {
		c.misplaced(d, "%s; %s is a method", home(d.Verb), p.method.Names[0].Name)
		return
	}
	if a := d.Method; a != nil {
		c.list.Add(a.Pos, a.End, "method is for directives above the interface; this one is for %s, above which it stands", p.method.Names[0].Name)
		return
	}
	if c.both(d, c.out.Methods[p.method]) {
		return
	}
	c.out.Methods[p.method] = append(c.out.Methods[p.method], d)
	c.out.Owners[p.method] = p.spec.Name.Name
}

// both notes a lock beside a nolock, or a second nolock.
func (c *collector) both(d *Directive, others []*Directive) bool {
	for _, other := range others {
		if other.Verb == NoLock || d.Verb == NoLock {
			c.misplaced(d, "a method has either locks or one nolock")
			return true
		}
	}
	return false
}

// putOther puts a lock or a nolock above an interface.
func (c *collector) putOther(d *Directive, spec *ast.TypeSpec) {
	var same []*Directive
	for _, other := range c.out.Others[spec] {
		if other.Method.Value == d.Method.Value {
			same = append(same, other)
		}
	}
	if !c.both(d, same) {
		c.out.Others[spec] = append(c.out.Others[spec], d)
	}
}

func (c *collector) putType(d *Directive, spec *ast.TypeSpec) {
	if d.Method != nil && notInterface(spec.Type) == "" {
		c.putOther(d, spec)
		return
	}
	if d.Verb != Service && d.Verb != Locks {
		if _, ok := ast.Unparen(spec.Type).(*ast.InterfaceType); ok {
			c.misplaced(d, "%s; %s is the interface itself, which takes service or locks, and %s only with method= for a method that it embeds", home(d.Verb), spec.Name.Name, d.Verb)
			return
		}
	}
	if kind := notInterface(spec.Type); kind != "" {
		c.misplaced(d, "%s; %s is %s", home(d.Verb), spec.Name.Name, kind)
		return
	}
	if d.Verb != Service && d.Verb != Locks {
		c.misplaced(d, "%s; %s is a type", home(d.Verb), spec.Name.Name)
		return
	}
	for _, other := range c.out.Interfaces {
		if other.Spec == spec {
			c.misplaced(d, "an interface has one service or locks; %s has %s already", spec.Name.Name, other.Directive.Verb)
			return
		}
	}
	c.out.Interfaces = append(c.out.Interfaces, &Interface{spec, d})
}

// detached explains a directive that belongs to nothing.
func (c *collector) detached(d *Directive, group *ast.CommentGroup) {
	if group.End() < c.file.Package {
		c.misplaced(d, "separated from the package clause by an empty line; %s", home(d.Verb))
		return
	}
	behind := c.behind(d)
	for _, decl := range c.file.Decls {
		switch fn, isFunc := decl.(*ast.FuncDecl); {
		case isFunc && decl.Pos() < group.Pos() && group.End() <= decl.End():
			c.misplaced(d, "%s; this is inside of %s", home(d.Verb), fn.Name.Name)
			return
		case behind && group.Pos() < decl.End():
			c.misplaced(d, "%s, in a line of its own", home(d.Verb))
			return
		case group.Pos() < decl.Pos():
			c.separated(d, declName(decl))
			return
		case group.End() <= decl.End():
			name, pos := nextMethod(decl, group.End())
			if c.line(pos) <= c.line(group.End())+1 {
				name = "" // nothing is between them, but it isn't a method that a directive can be for
			}
			c.separated(d, name)
			return
		}
	}
	c.misplaced(d, "%s; nothing follows here", home(d.Verb))
}

// behind reports whether code stands in front of a directive on its line.
func (c *collector) behind(d *Directive) bool {
	line, found := c.line(d.Slash), false
	ast.Inspect(c.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.CommentGroup); ok || n == nil || found {
			return false
		}
		if _, ok := n.(*ast.File); !ok {
			found = n.Pos() < d.Slash && c.line(n.Pos()) == line || n.End() <= d.Slash && c.line(n.End()) == line
		}
		return true
	})
	return found
}

func (c *collector) separated(d *Directive, from string) {
	if from == "" {
		c.misplaced(d, "%s", home(d.Verb))
		return
	}
	c.misplaced(d, "separated from %s by an empty line: %s", from, home(d.Verb))
}

func (c *collector) misplaced(d *Directive, format string, args ...any) {
	c.list.Add(d.Slash, d.End, format, args...)
}

// home returns the place where a verb belongs.
func home(v Verb) string {
	switch v {
	case Service, Locks:
		return string(v) + " belongs directly above an interface"
	case Defaults:
		return "defaults belongs in the package comment, directly above the package clause"
	default:
		return string(v) + " belongs directly above a method of an interface"
	}
}

// notInterface names the kind of a type that can't be an interface, or returns "" if it can.
func notInterface(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.ParenExpr:
		return notInterface(t.X)
	case *ast.StructType:
		return "a struct"
	case *ast.FuncType:
		return "a function type"
	case *ast.MapType:
		return "a map"
	case *ast.ChanType:
		return "a channel"
	case *ast.ArrayType:
		if t.Len == nil {
			return "a slice"
		}
		return "an array"
	case *ast.StarExpr:
		return "a pointer"
	}
	return ""
}

// declName names what a declaration declares first.
func declName(decl ast.Decl) string {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		return decl.Name.Name
	case *ast.GenDecl:
		if len(decl.Specs) > 0 {
			return specName(decl.Specs[0])
		}
	}
	return ""
}

func specName(spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name
	case *ast.ValueSpec:
		return spec.Names[0].Name
	case *ast.ImportSpec:
		return spec.Path.Value
	}
	return ""
}

// nextMethod finds the first spec or field of the declaration that starts behind after.
func nextMethod(decl ast.Decl, after token.Pos) (name string, pos token.Pos) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if name != "" || n == nil {
			return false
		}
		if n.Pos() < after {
			return true
		}
		switch n := n.(type) {
		case ast.Spec:
			name, pos = specName(n), n.Pos()
		case *ast.Field:
			if len(n.Names) > 0 {
				name, pos = n.Names[0].Name, n.Pos()
			}
		}
		return true
	})
	return name, pos
}

func (c *collector) line(pos token.Pos) int { return c.list.Fset().PositionFor(pos, false).Line }
