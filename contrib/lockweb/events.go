package lockweb

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"
)

// writeBound is the time limit for a viewer to read an update.
const writeBound = 15 * time.Second

// An update has the changes, as the script of the page reads them.
type update struct {
	At       int64                    `json:"at"`
	Tables   map[string]*tableUpdate  `json:"tables,omitempty"`
	Sections map[string]template.HTML `json:"sections,omitempty"`
	Error    string                   `json:"error,omitempty"`
}

type tableUpdate struct {
	Order []string                 `json:"order"`          // the ids of all rows
	Rows  map[string]template.HTML `json:"rows,omitempty"` // the new and changed rows
	More  int                      `json:"more"`
}

// A stream has the content that one viewer has received.
type stream struct {
	held, waiting sent
	sections      map[string]template.HTML
}

type sent struct {
	order []string
	rows  map[string]template.HTML
	more  int
}

// events writes the changes, as long as the viewer reads them.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx, which would buffer the stream
	if r.Method == http.MethodHead {
		return // its connection is free for the next request at once
	}
	send := func(u *update) bool {
		text, err := json.Marshal(u)
		if err != nil {
			return false
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeBound)) // a server without deadlines has no such limit
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	s := &stream{sections: map[string]template.HTML{}}
	tick := time.NewTicker(p.period())
	defer tick.Stop()
	for {
		v, err := p.look(r.Context(), false)
		u := &update{At: time.Now().UnixMilli()}
		if err != nil {
			u.Error = err.Error()
		} else {
			u.At = v.Now()
			s.change(u, v)
		}
		if r.Context().Err() != nil || !send(u) {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// change puts into u what is new in v.
func (s *stream) change(u *update, v *view) {
	for name, t := range map[string]*tableUpdate{
		"held": changed(&s.held, &v.Held), "waiting": changed(&s.waiting, &v.Waiting),
	} {
		if t != nil {
			if u.Tables == nil {
				u.Tables = map[string]*tableUpdate{}
			}
			u.Tables[name] = t
		}
	}
	for _, part := range v.Sections {
		if html, ok := s.sections[part.ID]; ok && html == part.HTML {
			continue
		}
		s.sections[part.ID] = part.HTML
		if u.Sections == nil {
			u.Sections = map[string]template.HTML{}
		}
		u.Sections[part.ID] = part.HTML
	}
}

// changed returns the changes of a table, or nil.
func changed[R comparable](s *sent, t *table[R]) *tableUpdate {
	u := &tableUpdate{Order: t.ids, Rows: map[string]template.HTML{}, More: t.More}
	rows := make(map[string]template.HTML, len(t.Rows))
	for i, r := range t.Rows {
		id, html := t.ids[i], t.html[r]
		rows[id] = html
		if before, ok := s.rows[id]; !ok || before != html {
			u.Rows[id] = html
		}
	}
	same := s.rows != nil && len(u.Rows) == 0 && s.more == t.More && slices.Equal(s.order, t.ids)
	*s = sent{t.ids, rows, t.More}
	if same {
		return nil
	}
	if u.Order == nil {
		u.Order = []string{}
	}
	return u
}
