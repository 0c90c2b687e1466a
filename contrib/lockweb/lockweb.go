// Package lockweb is a page that shows the locks of a program, or of all programs that share a server, while they run:
//
//	http.Handle("/debug/locks", lockweb.Handler(client))
//
// It lists the held locks with their holders and the rest of their leases, the waiting calls, the wait times of each
// lock name in the last 15 minutes, lost leases, and deadlocks. It draws which call waits for which holder. It updates
// itself as long as it is open. Without JavaScript it has the same tables, as of the moment when it was loaded. All of
// it is in the program: the browser loads nothing from elsewhere.
//
// The page shows keys, which may name people, and processes. The program decides which users may see it, as for all of
// /debug. It is read-only without [WithForce].
//
// A page without viewers costs nothing. With viewers, it takes a [lockrt.Client.Snapshot] each half second, or, for
// [Fleet], asks all processes each second; more viewers cost no more of that. If calls seem to wait for each other's permits,
// it also asks Redis how many there are. Redisson has nothing like it.
package lockweb

import (
	"context"
	"embed"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// The intervals of looks, while there are viewers.
const (
	localPeriod = 500 * time.Millisecond
	fleetPeriod = time.Second
	asking      = 2 * time.Second // time limit for the answers of processes
	lookBound   = 5 * time.Second
)

//go:embed assets
var assets embed.FS

// A Page is an [http.Handler] for one path, such as "/debug/locks". [Handler] and [Fleet] make it. It is safe for
// concurrent use, except [Page.With], which is for before. The zero value shows nothing.
type Page struct {
	clients []*lockrt.Client
	fleet   bool
	auth    func(*http.Request) error
	history *History // of the hooks, or nil
	forging forging

	turn chan struct{} // has a token while no look is under way
	once sync.Once

	// turn guards these.
	databases map[*lockrt.Client]string // the numbers of those that the page knows

	own    History // the waits that looks saw, of calls without hooks
	seen   map[waitID]waitSeen
	last   *view     // of the last look that succeeded
	looked time.Time // the end of the last look; zero before the first one
	err    error     // of the last look
}

// Handler returns a page of the locks that clients of this process hold and wait for. Without a client it shows
// nothing. Locks of one key on different servers, or in different databases, are different locks, except those of a [lockrt.RedLock]. Clients of one
// server need the same address of it. If there are several of them, the page asks the server once for the database of each, by CLIENT INFO, from Redis
// 6.2 on; without the permission it takes all for one database.
func Handler(clients ...*lockrt.Client) *Page {
	p := &Page{}
	for _, c := range clients {
		if c != nil && !slices.Contains(p.clients, c) {
			p.clients = append(p.clients, c)
		}
	}
	return p
}

// Fleet returns a page of the locks of all processes that share the server of client, as lockctl list shows them,
// including locks of Java programs that have waiters. Each look costs what [lockrt.Client.Fleet] costs.
func Fleet(client *lockrt.Client) *Page {
	p := Handler(client)
	p.fleet = true
	return p
}

// An Option adjusts a [Page].
type Option func(*Page)

// With adds options and returns p. Call it before the page is served.
func (p *Page) With(options ...Option) *Page {
	for _, o := range options {
		o(p)
	}
	return p
}

// WithForce adds a button to each lock that takes it from its holder, whose lease is then lost. The page asks for
// confirmation. auth decides whether a request may do that: the page calls it for the question and for the action, and
// shows the text of its error. The page refuses a request from another site, or without the token of the question. With
// a nil auth the page stays read-only.
//
// The token is of one process: behind a load balancer the question and the action have to reach the same one.
func WithForce(auth func(*http.Request) error) Option {
	return func(p *Page) { p.auth = auth }
}

// WithHistory makes the page show the records of h. Without it the page knows only the waits that it has seen itself,
// and the number of losses.
func WithHistory(h *History) Option {
	return func(p *Page) { p.history = h }
}

// ServeHTTP serves the page and its parts, which the query names.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'")
	h.Add("Content-Security-Policy", "base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	part := r.URL.Query().Get("part")
	if part == "force" {
		p.force(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "a page is read by GET", http.StatusMethodNotAllowed)
		return
	}
	switch part {
	case "":
		p.page(w, r)
	case "events":
		p.events(w, r)
	case "page.css":
		p.asset(w, part, "text/css; charset=utf-8")
	case "page.js":
		p.asset(w, part, "text/javascript; charset=utf-8")
	case "icon.svg":
		p.asset(w, part, "image/svg+xml")
	default:
		http.Error(w, "the page has no such part", http.StatusNotFound)
	}
}

func (p *Page) asset(w http.ResponseWriter, name, kind string) {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(text)
}

func (p *Page) page(w http.ResponseWriter, r *http.Request) {
	v, err := p.look(r.Context(), false)
	if err != nil {
		http.Error(w, "the locks cannot be looked at: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	render(w, http.StatusOK, "page", v)
}

// period is the interval of the looks for a viewer. Others share them.
func (p *Page) period() time.Duration {
	if p.fleet {
		return fleetPeriod
	}
	return localPeriod
}

// look returns the data to show, or why there is none: the result of another viewer's recent look, unless fresh. Only one look runs at a time.
func (p *Page) look(ctx context.Context, fresh bool) (*view, error) {
	p.once.Do(func() {
		p.turn = make(chan struct{}, 1)
		p.turn <- struct{}{}
	})
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if fresh || p.looked.IsZero() || time.Since(p.looked) >= p.period()*9/10 {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound) // other viewers use the result too
		defer cancel()
		world, err := p.survey(bounded)
		if err == nil {
			p.last = p.show(world)
		}
		p.looked, p.err = time.Now(), err
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.last, nil
}

// survey returns the present state of the locks.
func (p *Page) survey(ctx context.Context) (*survey.World, error) {
	if p.fleet {
		if len(p.clients) == 0 {
			return nil, errors.New("there is no client")
		}
		return survey.Take(ctx, p.clients[0], asking, "")
	}
	world := survey.New()
	snapshots := make([]lockrt.Snapshot, len(p.clients))
	spread := map[string]bool{} // keys whose waiters wait for a majority of the servers
	for i, c := range p.clients {
		snapshots[i] = c.Snapshot()
		for _, w := range snapshots[i].Waiting {
			if w.Kind == lockrt.KindRedLock {
				spread[w.Key] = true
			}
		}
	}
	sites := p.sites(ctx)
	for i, s := range snapshots {
		world.AddOf(func(key string) string {
			if spread[key] {
				return ""
			}
			return sites[i]
		}, s)
	}
	if slices.ContainsFunc(circlesOf(world), ofPermits) {
		counted := map[string]bool{} // by site
		for i, c := range p.clients {
			if c.Redis() != nil && !counted[sites[i]] {
				counted[sites[i]] = world.CountPermits(ctx, c.Redis(), sites[i], asking/6)
			}
		}
	}
	return world, nil
}

// ofPermits reports whether a call of a circle waits for a permit. Only Redis knows whether processes beside this one have some, too.
func ofPermits(c survey.Circle) bool {
	return slices.ContainsFunc(c, func(l survey.Link) bool { return l.Waiter.Kind == string(lockrt.KindPermit) })
}
