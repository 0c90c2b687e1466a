// Package survey looks at the locks of all packages of a run together: keys that meet, orders that can't be kept, and who locks what.
package survey

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates/model"
)

// A Survey knows all locks of a run.
type Survey struct {
	list *diag.List
	dir  string // that places are relative to
	uses []check.Use
	keys []key // in the order of their places

	linked func(a, b string) bool
}

// A key is one that a method locks.
type key struct {
	check.UsedKey
	shape shape
	use   check.Use
}

// identity is the same for keys of one shape, and has that as its text. Functions of two packages are two, whatever their names.
func (k key) identity() string {
	if k.shape.made {
		return k.shape.text + madeIn + k.Package
	}
	return k.shape.text
}

const madeIn = "\x00"

// shown is the text of an identity.
func shown(id string) string {
	text, _, _ := strings.Cut(id, madeIn)
	return text
}

// New makes a survey of uses, whose places are shown relative to dir. Linked says of two package paths whether some program has both.
func New(list *diag.List, dir string, uses []check.Use, linked func(a, b string) bool) *Survey {
	s := &Survey{list: list, dir: dir, linked: linked}
	// By file and place in it, whatever the order in which files were read.
	at := make([]int, len(uses))
	places := make([]token.Position, len(uses))
	for i, use := range uses {
		at[i], places[i] = i, s.position(use.Pos)
	}
	slices.SortStableFunc(at, func(i, j int) int {
		return cmp.Or(cmp.Compare(places[i].Filename, places[j].Filename), cmp.Compare(places[i].Offset, places[j].Offset))
	})
	for _, i := range at {
		s.uses = append(s.uses, uses[i])
		for _, k := range uses[i].Keys {
			s.keys = append(s.keys, key{k, shapeOf(k.Key), uses[i]})
		}
	}
	return s
}

func (s *Survey) position(pos token.Pos) token.Position {
	return s.list.Fset().PositionFor(pos, false)
}

// place is where something stands, for a message.
func (s *Survey) place(pos token.Pos) string {
	p := s.position(pos)
	return fmt.Sprintf("%s:%d", diag.Relative(s.dir, p.Filename), p.Line)
}

// Check notes in the list what is wrong or looks wrong about all locks together.
func (s *Survey) Check() {
	byShape := map[string][]key{}
	var order []string
	for _, k := range s.keys {
		if k.shape.open {
			continue
		}
		id := k.identity()
		if len(byShape[id]) == 0 {
			order = append(order, id)
		}
		byShape[id] = append(byShape[id], k)
	}
	near := map[string]map[string][]key{} // those before, by their separators and their beginning
	var groups [][]key
	for _, id := range order {
		s.oneKind(byShape[id])
		s.oneLock(byShape[id])
		s.spellings(byShape[id])
		groups = append(groups, byShape[id])
		k := byShape[id][0]
		separators, first, fixed := k.shape.outline()
		if near[separators] == nil {
			near[separators] = map[string][]key{}
		}
		for other, keys := range near[separators] {
			// Most of the keys of a large program begin with a word of their own, and needn't be compared.
			if fixed && other != first && other != "" {
				continue
			}
			for _, earlier := range keys {
				s.apart(earlier, k)
			}
		}
		near[separators][first] = append(near[separators][first], k)
	}
	s.tags(groups)
	s.entities()
	s.order()
}

// oneKind checks that the values of one shape stand for one kind of thing wherever they can meet: types of a program's main package meet only
// those that are used in it.
func (s *Survey) oneKind(keys []key) {
	for i := range keys[0].shape.values() {
		var firsts []*key
		for j := range keys {
			k := &keys[j]
			t := kind(k.shape.values()[i])
			if t == nil || isBasic(t) {
				// The id of anything, or of what the user of the interface says.
				continue
			}
			same := slices.IndexFunc(firsts, func(f *key) bool { return s.meets(f, k) })
			if same < 0 {
				firsts = append(firsts, k)
			} else {
				s.sameKind(firsts[same], k, i)
			}
		}
	}
}

// oneLock checks that a key is one kind of lock: the kinds are different things in Redis, and one doesn't exclude another.
func (s *Survey) oneLock(keys []key) {
	for i := range keys[1:] {
		first, k := &keys[0], &keys[i+1]
		if !s.meets(first, k) {
			continue
		}
		from, to := k.Directive.Key.ValuePos()
		switch {
		case lockName(first) != lockName(k):
			why := "these don't exclude each other"
			if first.Kind == model.Fair && k.Kind == model.Mutex || first.Kind == model.Mutex && k.Kind == model.Fair {
				why = "only a fair lock has a queue"
			}
			s.list.Add(from, to, "key %s is %s here and %s at %s, and %s: make it the same in both places",
				k.shape.text, lockName(k), lockName(first), s.place(first.Directive.Slash), why)
		case first.Permits != k.Permits:
			s.list.Add(from, to, "key %s has %d permits here and %d at %s, and whoever is the first to use it would decide: make it the same in both places",
				k.shape.text, k.Permits, first.Permits, s.place(first.Directive.Slash))
		}
	}
}

func lockName(k *key) string {
	switch k.Kind {
	case model.Mutex, model.Multi:
		return "a mutex"
	case model.Fair:
		return "a fair lock"
	case model.Permit:
		return "a semaphore"
	case model.Red:
		return "a red lock"
	default:
		return "a read-write lock"
	}
}

// meets reports whether two keys can be of one program, for all that their packages say.
func (s *Survey) meets(a, b *key) bool {
	p, q := a.use.Interface.Pkg(), b.use.Interface.Pkg()
	return p.Path() == q.Path() || p.Name() != "main" && q.Name() != "main" || s.linked(p.Path(), q.Path())
}

func (s *Survey) sameKind(first, k *key, i int) {
	a, b := kind(first.shape.values()[i]), kind(k.shape.values()[i])
	if path(a) == path(b) {
		// Compared by name: a package that is checked with its tests has types of its own.
		return
	}
	at, end := k.Directive.Key.ValuePos()
	name := short
	if short(a) == short(b) {
		name = path
	}
	message := fmt.Sprintf("key %s is of %s here and of %s at %s, so things of two kinds wait for each other: name one type (an alias will do), or give one of them another key",
		k.shape.text, name(b), name(a), s.place(first.Directive.Slash))
	if s.linked(first.use.Interface.Pkg().Path(), k.use.Interface.Pkg().Path()) {
		s.list.Add(at, end, "%s", message)
	} else {
		s.list.Warn(at, end, "%s", message)
	}
}

// apart warns of two shapes that can give one key. It cannot compare the keys of two functions.
func (s *Survey) apart(a, b key) {
	if a.shape.made && b.shape.made {
		return
	}
	if both, ok := meet(a.shape, b.shape); ok && s.meets(&a, &b) {
		at, end := b.Directive.Key.ValuePos()
		s.list.Warn(at, end, "%s can be the same key as %s at %s: both can be %q", b.shape.text, a.shape.text, s.place(a.Directive.Slash), both)
	}
}

// entities warns of locks whose type doesn't tell them from others.
func (s *Survey) entities() {
	declared := map[string]check.Use{}
	for _, use := range s.uses {
		if use.Verb != directive.Locks || len(use.Keys) == 0 || len(use.Method.Params) == 0 {
			continue
		}
		name, t := use.Method.Name, types.Unalias(use.Method.Params[0].Type)
		if use.Method.Entity != nil {
			t = types.Unalias(use.Method.Entity.Type)
		}
		if use.Keys[0].Kind == model.Multi {
			t = types.Unalias(t.Underlying().(*types.Slice).Elem()) // of which it is a list
		}
		end := use.Pos + token.Pos(len(name))
		if isBasic(t) {
			s.list.Warn(use.Pos, end, "%s takes any %s: declare a type such as type %sID %s, so that nothing else can be passed", name, short(t), name, short(t))
			continue
		}
		if _, generic := t.(*types.TypeParam); generic {
			continue
		}
		id := path(use.Interface.Type()) + " " + path(t)
		other, ok := declared[id]
		if !ok {
			declared[id] = use
			continue
		}
		if shapeOf(other.Keys[0].Key).text != shapeOf(use.Keys[0].Key).text {
			s.list.Warn(use.Pos, end, "%s and %s are both locks of %s, so a holder of one can be taken for a holder of the other; give them types of their own",
				other.Method.Name, name, short(t))
		}
	}
}

func isBasic(t types.Type) bool {
	_, ok := t.(*types.Basic)
	return ok
}

// short names a type as its users do.
func short(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// path names a type so that no other has the name.
func path(t types.Type) string { return types.TypeString(t, (*types.Package).Path) }

// shapes lists the identities of all keys, each once.
func (s *Survey) shapes() []string {
	var all []string
	for _, k := range s.keys {
		all = append(all, k.identity())
	}
	slices.SortFunc(all, strings.Compare)
	return slices.Compact(all)
}

// texts are those of identities.
func texts(ids []string) []string {
	var all []string
	for _, id := range ids {
		all = append(all, shown(id))
	}
	return all
}

// Names lists what can be explained by its name, for a message.
func (s *Survey) Names() []string {
	all := texts(s.shapes())
	for _, use := range s.uses {
		parts := strings.Split(use.Name, ".")
		for i := range parts {
			all = append(all, strings.Join(parts[i:], "."))
		}
	}
	return all
}
