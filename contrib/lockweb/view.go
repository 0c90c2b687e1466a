package lockweb

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
)

// The sizes of a page.
const (
	mostRows     = 2000 // of each table
	mostKeyRunes = 80   // of a key before it has to be unfolded
	sameUntil    = 250  // milliseconds by which two looks may differ about the end of a lease
)

// A view is the content of a page at one moment: facts, and their HTML.
type view struct {
	At       time.Time
	Title    string
	Force    bool
	Held     table[heldRow]
	Waiting  table[waitingRow]
	Sections []section

	holders map[string]held  // by the id of their row
	until   map[string]int64 // likewise, the end of the lease
}

// Now is the time of the view, in milliseconds since 1970.
func (v *view) Now() int64 { return v.At.UnixMilli() }

// A held is a lock as one holder has it.
type held struct {
	lock   *survey.Lock
	holder survey.Holder
}

// A table has rows, each with a stable id.
type table[R comparable] struct {
	Rows []R
	More int // rows that do not fit

	ids  []string
	html map[R]template.HTML // of each row
}

// An instant is a row at a moment.
type instant[R comparable] struct {
	Row R
	Now int64
}

// At returns the rows as of a moment.
func (t *table[R]) At(now int64) []instant[R] {
	all := make([]instant[R], len(t.Rows))
	for i, r := range t.Rows {
		all[i] = instant[R]{r, now}
	}
	return all
}

// add adds a row. It reuses the HTML of an unchanged row of the table before: that HTML has older texts of times, which
// the script of a live page replaces.
func (t *table[R]) add(id, template string, r R, before map[R]template.HTML, now int64) {
	t.Rows = append(t.Rows, r)
	t.ids = append(t.ids, id)
	html, ok := before[r]
	if !ok {
		html = htmlOf(template, instant[R]{r, now})
	}
	t.html[r] = html
}

// A section is a part of the page that is replaced as a whole when it changes.
type section struct {
	ID   string
	HTML template.HTML
}

// A heldRow and a waitingRow are the content of a row. Times are milliseconds since 1970, 0 if they are not known.
type heldRow struct {
	ID, Kind, Name, Who string
	Key                 keyText
	Since, Until        int64 // Until is 0 for ever
	Token               int64
	Holds, Waiting      int
	Gone, Force         bool
	Lingers             bool // no call has it, and it is about to be given back
}

type waitingRow struct {
	ID, Kind, Name, Who string
	Key                 keyText
	Since, Until        int64 // Until is 0 if only its context bounds the wait
	Under               string
}

// A keyText is a key as printable text, which lockctl takes for the key: see [survey.Quoted].
type keyText struct {
	Short string
	Whole string // if Short is not the whole key
}

func textOf(key string) keyText {
	text := survey.Quoted(key)
	if runes := []rune(text); len(runes) > mostKeyRunes {
		return keyText{string(runes[:mostKeyRunes-1]) + "…", text}
	}
	return keyText{text, ""}
}

// idOf names a row.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func millis(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// show makes a view of the world. The caller has the turn to look.
func (p *Page) show(world *survey.World) *view {
	v := &view{At: world.At, Force: p.auth != nil, Title: "Locks of this process", holders: map[string]held{}, until: map[string]int64{}}
	if p.fleet {
		v.Title = "Locks of all processes"
	}
	before := &view{}
	if p.last != nil {
		before = p.last
	}
	locks := world.Sorted("")
	v.hold(locks, before)
	v.wait(locks, before.Waiting.html)
	v.Sections = p.sections(world, v)
	return v
}

// hold adds the holders of locks, those with the longest hold first.
func (v *view) hold(locks []*survey.Lock, before *view) {
	v.Held.html = map[heldRow]template.HTML{}
	var all []held
	for _, l := range locks {
		for _, h := range l.Holders {
			all = append(all, held{l, h})
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(orLast(a.holder.Since), orLast(b.holder.Since)) })
	if len(all) > mostRows {
		v.Held.More, all = len(all)-mostRows, all[:mostRows]
	}
	for _, one := range all {
		h := one.holder
		row := heldRow{
			ID: "h" + idOf(one.lock.Key, h.Owner, one.lock.Kind), Key: textOf(one.lock.Key), Kind: one.lock.Kind, Name: survey.Clean(h.Name),
			Who: survey.Clean(h.String()), Since: millis(h.Since), Token: h.Token, Holds: h.Holds, Waiting: len(one.lock.Waiters), Gone: h.Gone, Force: v.Force,
			Lingers: h.Lingers,
		}
		if h.LeftMS >= 0 {
			row.Until = v.Now() + h.LeftMS
			if was, ok := before.until[row.ID]; ok && max(was-row.Until, row.Until-was) < sameUntil {
				row.Until = was // so a row changes with a renewal, and not with each look
			}
			v.until[row.ID] = row.Until
		}
		v.holders[row.ID] = one
		v.Held.add(row.ID, "held", row, before.Held.html, v.Now())
	}
}

// wait adds the waiters, those with the longest wait first.
func (v *view) wait(locks []*survey.Lock, before map[waitingRow]template.HTML) {
	v.Waiting.html = map[waitingRow]template.HTML{}
	type one struct {
		lock *survey.Lock
		call survey.Waiter
	}
	var all []one
	for _, l := range locks {
		for _, w := range l.Waiters {
			all = append(all, one{l, w})
		}
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(orLast(a.call.Since), orLast(b.call.Since)) })
	if len(all) > mostRows {
		v.Waiting.More, all = len(all)-mostRows, all[:mostRows]
	}
	times := map[string]int{}
	for _, o := range all {
		w := o.call
		row := waitingRow{
			Key: textOf(o.lock.Key), Kind: w.Kind, Name: survey.Clean(w.Name), Who: survey.Clean(w.String()), Since: millis(w.Since), Until: millis(w.Deadline),
		}
		var under []string
		for _, u := range w.Under {
			under = append(under, textOf(u.Key).Short)
		}
		row.Under = strings.Join(under, ", ")
		id := idOf(o.lock.Key, w.Process, w.Name, w.Kind, strconv.FormatInt(orLast(w.Since), 10), row.Under)
		times[id]++ // for several that began at once
		row.ID = "w" + idOf(id, strconv.Itoa(times[id]))
		v.Waiting.add(row.ID, "waiting", row, before, v.Now())
	}
}

// orLast returns a time as a number, the largest if it is not known.
func orLast(t *time.Time) int64 {
	if t == nil {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// between formats the time from one moment to another, both in milliseconds since 1970, the first of which may be
// unknown.
func between(from, to int64) string {
	if from == 0 || to == 0 {
		return "?"
	}
	return survey.Short(time.Duration(to-from) * time.Millisecond)
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"between": between,
}).ParseFS(assets, "assets/*.html"))

func htmlOf(name string, data any) template.HTML {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return template.HTML("<p>" + template.HTMLEscapeString(err.Error()) + "</p>") //nolint:gosec // escaped
	}
	return template.HTML(b.String()) //nolint:gosec // made by html/template
}

func render(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = templates.ExecuteTemplate(w, name, data) // an error means that the viewer has gone
}
