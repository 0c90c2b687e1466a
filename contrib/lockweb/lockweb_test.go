package lockweb_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockweb"
	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// hostile is a key that contains a script, and a mark that would reverse the text behind it.
const hostile = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\u202eabc\u2066\"'&amp;"

// shown is hostile, in the text of a key, as escaped text in HTML.
const shown = `&lt;script&gt;window.hit = 1&lt;/script&gt;&lt;img src=x onerror=&#39;window.hit = 1&#39;&gt;\u202eabc\u2066\&#34;&#39;&amp;amp;`

// unhurried is the time in which Redis answers: a busy machine may stand still for longer than the default.
const unhurried = 15 * time.Second

func open(t testing.TB, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	opts.OpTimeout = unhurried
	c, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func hold(t testing.TB, l lockrt.Locker, opts ...lockrt.LockOption) *lockrt.Lease {
	t.Helper()
	lease, err := l.Lock(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Unlock(context.Background()) })
	return lease
}

// wait makes a call wait for a lock, and returns when it does.
func wait(t testing.TB, c *lockrt.Client, ctx context.Context, l lockrt.Locker, opts ...lockrt.LockOption) {
	t.Helper()
	before := c.Stats().Waiting
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if lease, err := l.Lock(ctx, opts...); err == nil {
			_ = lease.Unlock(context.Background())
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool { return c.Stats().Waiting > before && len(c.Snapshot().Waiting) > before }, time.Minute, time.Millisecond)
}

func serve(t testing.TB, h http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections() // streams continue until then
		server.Close()
	})
	return server.URL + "/debug/locks"
}

func get(t testing.TB, h http.Handler, query string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/locks"+query, nil))
	return w.Result(), w.Body.String()
}

func TestPage_IsAPlainTable(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{Name: "orders"})
	key := redistest.Key(t, hostile)
	lease := hold(t, c.Mutex(key), lockrt.WithName("orders.Service.Pay"), lockrt.WithFencing())
	wait(t, c, t.Context(), c.Mutex(key), lockrt.WithName("orders.Service.Refund"), lockrt.WithWait(time.Hour))
	page := lockweb.Handler(c)
	response, body := get(t, page, "")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "default-src 'self'", response.Header.Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	require.Contains(t, body, shown)
	require.NotContains(t, body, "window.hit = 1</script>")
	held, waiting, _ := strings.Cut(body, `id="waiting-title"`)
	require.Regexp(t, `<td>mutex</td><td><bdi>orders.Service.Pay</bdi></td><td><bdi>orders on .* pid \d+</bdi> <small>token \d+</small></td>`, held)
	require.Regexp(t, `data-until="\d+">(2\d|30)s<`, held)
	require.Regexp(t, `<bdi>orders.Service.Refund</bdi>.*data-until="\d+">(5\dm..s|1h00m)<`, waiting)
	require.NotContains(t, body, "part=force", "a page is read-only unless it is asked for")

	require.NoError(t, lease.Unlock(t.Context()))
	_, body = get(t, lockweb.Handler(c), "")
	require.NotContains(t, body, "orders.Service.Pay")
}

// TestPage_IsInTheProgram shows that the page is of one origin, small, and needs no other path.
func TestPage_IsInTheProgram(t *testing.T) {
	t.Parallel()
	page := lockweb.Handler(open(t, lockrt.Options{}))
	_, body := get(t, page, "")
	size := len(body)
	for kind, part := range map[string]string{"text/css": "page.css", "text/javascript": "page.js", "image/svg+xml": "icon.svg"} {
		require.Contains(t, body, `"?part=`+part+`"`)
		response, text := get(t, page, "?part="+part)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Contains(t, response.Header.Get("Content-Type"), kind)
		require.NotEmpty(t, text)
		size += len(text)
	}
	require.Less(t, size, 60_000)
	files, err := filepath.Glob("assets/*")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		others := regexp.MustCompile(`https?://[^"\s]+`).FindAllString(string(text), -1)
		for _, other := range others {
			require.Equal(t, "http://www.w3.org/2000/svg", other, file) // a name that the browser does not load
		}
		require.NotRegexp(t, `\son\w+=|style=|javascript:`, string(text), "the policy forbids it in %s", file)
	}
	response, _ := get(t, page, "?part=../lockweb.go")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/debug/locks", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestPage_OfNothing(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]*lockweb.Page{"no client": lockweb.Handler(), "nil": lockweb.Handler(nil), "zero": {}} {
		response, body := get(t, page, "")
		require.Equal(t, http.StatusOK, response.StatusCode, name)
		require.Contains(t, body, "No lock is held.", name)
		require.Contains(t, body, "No call waits.", name)
	}
	response, body := get(t, lockweb.Fleet(nil), "")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Contains(t, body, "there is no client")

	c := open(t, lockrt.Options{})
	hold(t, c.Mutex(redistest.Key(t, "k")))
	page := lockweb.Handler(c)
	require.NoError(t, c.Close())
	_, body = get(t, page, "")
	require.Contains(t, body, "No lock is held.", "after Close")
}

// An event is a message to the script of the page.
type event struct {
	At     int64
	Error  string
	Tables map[string]struct {
		Order []string
		Rows  map[string]string
		More  int
	}
	Sections map[string]string
}

// listen returns the events of a page.
func listen(t testing.TB, h http.Handler) <-chan event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, serve(t, h)+"?part=events", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	require.Contains(t, response.Header.Get("Content-Type"), "text/event-stream")
	events := make(chan event)
	go func() {
		defer close(events)
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			data, ok := strings.CutPrefix(line, "data: ")
			var e event
			if !ok || json.Unmarshal([]byte(data), &e) != nil {
				continue
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// until returns the first event that fits.
func until(t testing.TB, events <-chan event, fits func(e event) bool) event {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			require.True(t, ok, "the stream has ended")
			if fits(e) {
				return e
			}
		case <-patience:
			require.Fail(t, "no such event")
		}
	}
}

// TestEvents shows that the first event has everything, and the others only changes.
func TestEvents(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{Tracking: lockrt.TrackingOff}) // which looks at a new lease, and so prolongs it
	one, two := redistest.Key(t, hostile), redistest.Key(t, "two")
	hold(t, c.Mutex(one))
	events := listen(t, lockweb.Handler(c))
	first := <-events
	require.Len(t, first.Tables["held"].Order, 1)
	row := first.Tables["held"].Order[0]
	require.Contains(t, first.Tables["held"].Rows[row], shown)
	require.NotNil(t, first.Tables["waiting"].Order)
	require.Len(t, first.Sections, 5)

	lease := hold(t, c.Mutex(two))
	e := until(t, events, func(e event) bool { return len(e.Tables["held"].Order) == 2 })
	require.NotContains(t, e.Tables["held"].Rows, row, "it says what it said before")
	require.Contains(t, e.Tables["held"].Rows[e.Tables["held"].Order[1]], "two")
	require.NotContains(t, e.Sections, "graph")

	require.NoError(t, lease.Unlock(t.Context()))
	e = until(t, events, func(e event) bool { return len(e.Tables["held"].Order) == 1 })
	require.Empty(t, e.Tables["held"].Rows)
}

func TestEvents_OfAFleetWhoseServerIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: 9 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	events := listen(t, lockweb.Fleet(c))
	until(t, events, func(e event) bool { return e.Error == "" })
	server.Kill()
	require.NotEmpty(t, until(t, events, func(e event) bool { return e.Error != "" }).Error)
	server.Restart()
	until(t, events, func(e event) bool { return e.Error == "" })
}

// TestFleet shows that a fleet has all processes, and locks of Java programs with waiters.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	fresh := func(name string) *lockrt.Client {
		c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Name: name, OpTimeout: unhurried})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b, looker := fresh("orders"), fresh("stock"), fresh("page")
	hold(t, a.Mutex("order:7"), lockrt.WithName("orders.Service.Pay"))
	wait(t, b, t.Context(), b.Mutex("order:7"), lockrt.WithName("orders.Service.Refund"))
	javaHolds(t, server, "java:"+strings.Repeat("long ", 2000)+hostile)
	var body string
	require.Eventually(t, func() bool { // until all have answered in time
		_, body = get(t, lockweb.Fleet(looker), "")
		return strings.Contains(body, "orders.Service.Pay") && strings.Contains(body, "orders.Service.Refund")
	}, time.Minute, time.Millisecond)
	require.Contains(t, body, "Locks of all processes")
	require.Regexp(t, `order:7</bdi></th><td>mutex</td><td><bdi>orders.Service.Pay</bdi></td><td><bdi>orders on `, body)
	require.Regexp(t, `<bdi>orders.Service.Refund</bdi></td><td><bdi>stock on `, body)
	require.Contains(t, body, "<bdi>Java 0f0e0d0c-")
	require.Contains(t, body, shown)
	require.Contains(t, body, `<details><summary><bdi>&#34;java:long long`)
	_, own := get(t, lockweb.Handler(looker), "")
	require.Contains(t, own, "No lock is held.", "of this process alone")

	// It has what lockctl list prints, and nothing else.
	var world *survey.World
	require.Eventually(t, func() bool {
		var err error
		world, err = survey.Take(t.Context(), looker, time.Minute, "")
		return err == nil && len(world.Silent) == 0 && len(world.Locks) == 2
	}, time.Minute, time.Millisecond)
	holders, waiters := 0, 0
	for _, l := range world.Locks {
		for _, h := range l.Holders {
			holders++
			require.Contains(t, body, "</th><td>"+l.Kind+"</td><td><bdi>"+h.Name+"</bdi></td><td><bdi>"+h.String()+"</bdi>")
		}
		for _, w := range l.Waiters {
			waiters++
			require.Contains(t, body, "<td><bdi>"+w.Name+"</bdi></td><td><bdi>"+w.String()+"</bdi>")
		}
	}
	require.Equal(t, holders, strings.Count(body, `<tr id="h`))
	require.Equal(t, waiters, strings.Count(body, `<tr id="w`))
}

// javaHolds makes a lock as a Java program leaves it, for which another one waits.
func javaHolds(t testing.TB, server *redistest.RedisServer, key string) {
	t.Helper()
	require.NoError(t, server.Do("HSET", key, "0f0e0d0c-0b0a-4908-8706-050403020100:34", "1").Error())
	require.NoError(t, server.Do("PEXPIRE", key, "3600000").Error())
	rc := server.NewClient()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rc.Receive(ctx, rc.B().Subscribe().Channel("redisson_lock__channel:{"+key+"}").Build(), func(rueidis.PubSubMessage) {})
	}()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool {
		n, err := server.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{"+key+"}").ToArray()
		if err != nil || len(n) != 2 {
			return false
		}
		count, err := n[1].AsInt64()
		return err == nil && count > 0
	}, time.Minute, time.Millisecond)
}

// TestPage_Deadlock shows that two calls that wait for each other are named and drawn as a
// deadlock.
func TestPage_Deadlock(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{DeadlockAfter: -1})
	a, b := c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))
	hasA, hasB := hold(t, a, lockrt.WithName("pay")), hold(t, b, lockrt.WithName("ship"))
	wait(t, c, hasA.Context(), b, lockrt.WithName("pay's second"))
	_, body := get(t, lockweb.Handler(c), "")
	require.NotContains(t, body, "<h2>Deadlocks</h2>")
	require.NotContains(t, body, `class="stuck"`)
	require.Contains(t, body, "pay waits for "+b.Key()+", which ship has")
	wait(t, c, hasB.Context(), a, lockrt.WithName("ship's second"))
	wait(t, c, t.Context(), a)
	wait(t, c, t.Context(), a)
	_, body = get(t, lockweb.Handler(c), "")
	require.Contains(t, body, "<h2>Deadlocks</h2>")
	require.Regexp(t, `(?s)<ol><li><bdi>pay&#39;s second</bdi>.*<li><bdi>ship&#39;s second</bdi>.*</ol>`, body)
	require.Equal(t, 4, strings.Count(body, `<g class="stuck">`), "two boxes and two arrows")
	require.Equal(t, 3, strings.Count(body, "<rect "), "calls that nobody waits for are one box")
	require.Contains(t, body, "2 calls waits for "+a.Key())
}

// TestPage_History shows the records of hooks: losses, and waits that no look saw.
func TestPage_History(t *testing.T) {
	t.Parallel()
	history := &lockweb.History{}
	told, waiting := make(chan lockrt.EndEvent, 10), make(chan struct{}, 10)
	c := open(t, lockrt.Options{Hooks: history.Hooks(lockrt.Hooks{
		Waiting:    func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
		AcquireEnd: func(context.Context, lockrt.AcquireEvent) {},
		Ended:      func(_ context.Context, e lockrt.EndEvent) { told <- e },
	})})
	page := lockweb.Handler(c).With(lockweb.WithHistory(history))
	_, body := get(t, page, "")
	require.Contains(t, body, "<p>None.</p>")
	m := c.Mutex(redistest.Key(t, hostile))
	lease := hold(t, m, lockrt.WithName("orders.Service.Pay"))
	done := make(chan error, 1)
	go func() {
		second, err := m.Lock(t.Context(), lockrt.WithName("orders.Service.Refund"))
		if err == nil {
			err = second.Unlock(context.Background())
		}
		done <- err
	}()
	<-waiting
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, lockrt.EndReleased, (<-told).Reason)
	require.Equal(t, lockrt.EndReleased, (<-told).Reason)
	hold(t, m, lockrt.WithName("orders.Service.Pay"))
	taken, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, lockrt.EndTaken, (<-told).Reason)
	_, body = get(t, lockweb.Handler(c).With(lockweb.WithHistory(history)), "")
	_, losses, _ := strings.Cut(body, `id="losses-title"`)
	require.Contains(t, losses, shown)
	require.Contains(t, losses, "<td>taken</td>")
	_, heat, _ := strings.Cut(body, `class="heat"`)
	require.Contains(t, heat, "orders.Service.Refund")
	require.Regexp(t, `<td class="h[1-5]">`, heat)
	require.Contains(t, body, "<dt>Leases lost</dt><dd>1</dd>")
}

// TestPage_HistoryOfDeadlocks shows that a deadlock stays in the list when it is over.
func TestPage_HistoryOfDeadlocks(t *testing.T) {
	t.Parallel()
	history := &lockweb.History{}
	found := make(chan lockrt.DeadlockEvent, 10)
	c := open(t, lockrt.Options{DeadlockAfter: 50 * time.Millisecond, BreakDeadlocks: true, Hooks: history.Hooks(lockrt.Hooks{
		Deadlock: func(_ context.Context, e lockrt.DeadlockEvent) { found <- e },
	})})
	a, b := c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))
	hasA, hasB := hold(t, a), hold(t, b)
	wait(t, c, hasA.Context(), b)
	go func() { // may be ended before a look sees it wait
		if lease, err := a.Lock(hasB.Context()); err == nil {
			_ = lease.Unlock(context.Background())
		}
	}()
	<-found
	_, body := get(t, lockweb.Handler(c).With(lockweb.WithHistory(history)), "")
	_, losses, _ := strings.Cut(body, `id="losses-title"`)
	require.Regexp(t, `<td>deadlock(, ended)?</td>`, losses)
}

// TestPage_SeesWaits shows that a call that a look sees waiting is in the heat map without hooks,
// while it waits and after.
func TestPage_SeesWaits(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{})
	m := c.Mutex(redistest.Key(t, "k"))
	lease := hold(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	wait(t, c, ctx, m, lockrt.WithName("orders.Service.Refund"))
	events := listen(t, lockweb.Handler(c))
	until(t, events, func(e event) bool { return strings.Contains(e.Sections["heat"], "orders.Service.Refund") })
	cancel()
	require.NoError(t, lease.Unlock(t.Context()))
	until(t, events, func(e event) bool { return e.Tables["waiting"].Order != nil && len(e.Tables["waiting"].Order) == 0 })
	_, body := get(t, lockweb.Handler(c), "")
	require.Contains(t, body, "No call has waited.", "another page has not seen it")
}

// TestEvents_EndWithTheViewer shows that the stream ends when the viewer leaves.
func TestEvents_EndWithTheViewer(t *testing.T) {
	t.Parallel()
	page := lockweb.Handler(open(t, lockrt.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	w := &firstWrite{httptest.NewRecorder(), began, false}
	go func() {
		defer close(ended)
		page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/locks?part=events", nil))
	}()
	<-began
	cancel()
	<-ended
}

// A HEAD request for the stream gets its headers, and its connection is free for the next request.
func TestEvents_HeadEndsAtOnce(t *testing.T) {
	t.Parallel()
	url := serve(t, lockweb.Handler())
	for range 2 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url+"?part=events", nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	}
	w := httptest.NewRecorder()
	lockweb.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/debug/locks?part=events", nil))
	require.Empty(t, w.Body.String())
}

// Viewers come and leave while clients lock, wait and close. Each viewer gets a page, and when all clients are closed it is empty.
func TestPage_ViewersLeaveWhileClientsClose(t *testing.T) {
	t.Parallel()
	history := &lockweb.History{}
	key := redistest.Key(t, "k")
	var clients []*lockrt.Client
	for range 3 {
		clients = append(clients, open(t, lockrt.Options{Hooks: history.Hooks(lockrt.Hooks{})}))
	}
	force := lockweb.WithForce(func(*http.Request) error { return nil })
	page := lockweb.Handler(clients...).With(lockweb.WithHistory(history), force)
	urls := []string{serve(t, page), serve(t, lockweb.Fleet(clients[0]).With(lockweb.WithHistory(history), force))}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range 10 {
				if lease, err := c.Mutex(key).Lock(t.Context(), lockrt.WithName("orders.Service.Pay")); err == nil {
					_ = lease.Unlock(t.Context())
				}
			}
			_ = c.Close()
		})
	}
	for i := range 12 {
		all.Go(func() {
			for _, query := range []string{"?part=events", "", "?part=force&id=hnothing"} {
				ctx, cancel := context.WithCancel(t.Context())
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, urls[i%2]+query, nil)
				if err == nil {
					var response *http.Response
					if response, err = http.DefaultClient.Do(request); err == nil {
						_, err = response.Body.Read(make([]byte, 10))
						cancel() // the rest is not read
						_ = response.Body.Close()
					}
				}
				cancel()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { // an earlier look may be shown for a moment
		_, body := get(t, page, "")
		return strings.Contains(body, "No lock is held.") && strings.Contains(body, "No call waits.")
	}, time.Minute, 10*time.Millisecond)
}

type firstWrite struct {
	*httptest.ResponseRecorder

	began chan struct{}
	done  bool
}

func (w *firstWrite) Write(text []byte) (int, error) {
	if !w.done {
		w.done = true
		close(w.began)
	}
	return w.ResponseRecorder.Write(text)
}

var errNotYou = errors.New("operators alone may do that")

// A viewer sends requests as a browser does.
type viewer struct {
	t       testing.TB
	page    http.Handler
	cookies []*http.Cookie
	header  map[string]string
}

func (v *viewer) do(method, query, form string) (int, string) {
	v.t.Helper()
	r := httptest.NewRequestWithContext(v.t.Context(), method, "http://example.com/debug/locks"+query, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	v.page.ServeHTTP(w, r)
	if set := w.Result().Cookies(); len(set) > 0 {
		v.cookies = set
	}
	text, err := io.ReadAll(w.Result().Body)
	require.NoError(v.t, err)
	return w.Code, string(text)
}

var (
	linkIn  = regexp.MustCompile(`href="\?part=force&amp;id=(\w[\w-]*)"`)
	tokenIn = regexp.MustCompile(`name="token" value="([\w-]+)"`)
)

// ask opens the question about the one lock of a page, and returns the values of the form.
func (v *viewer) ask() (id, token string) {
	v.t.Helper()
	_, body := v.do(http.MethodGet, "", "")
	links := linkIn.FindAllStringSubmatch(body, -1)
	require.Len(v.t, links, 1, body)
	code, question := v.do(http.MethodGet, "?part=force&id="+links[0][1], "")
	require.Equal(v.t, http.StatusOK, code, question)
	tokens := tokenIn.FindStringSubmatch(question)
	require.Len(v.t, tokens, 2)
	return links[0][1], tokens[1]
}

func TestForce_OfEveryKind(t *testing.T) {
	t.Parallel()
	type lock struct {
		take func(c *lockrt.Client, key string) (context.Context, error)
	}
	of := func(l *lockrt.Lease, err error) (context.Context, error) { return l.Context(), err }
	for name, test := range map[string]lock{
		"mutex": {func(c *lockrt.Client, key string) (context.Context, error) { return of(c.Mutex(key).Lock(t.Context())) }},
		"fair": {func(c *lockrt.Client, key string) (context.Context, error) {
			return of(c.FairMutex(key).Lock(t.Context()))
		}},
		"write": {func(c *lockrt.Client, key string) (context.Context, error) {
			return of(c.RWMutex(key).Lock(t.Context()))
		}},
		"read": {func(c *lockrt.Client, key string) (context.Context, error) {
			return of(c.RWMutex(key).RLock(t.Context()))
		}},
		"permit": {func(c *lockrt.Client, key string) (context.Context, error) {
			p, err := c.PermitSemaphore(key, 3).Acquire(t.Context())
			return p.Context(), err
		}},
		"permits": {func(c *lockrt.Client, key string) (context.Context, error) {
			p, err := c.PermitSemaphore(key, 3).AcquireN(t.Context(), 2)
			return p.Context(), err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, lockrt.Options{})
			ctx, err := test.take(c, redistest.Key(t, hostile))
			require.NoError(t, err)
			asked := 0
			v := &viewer{t: t, page: lockweb.Handler(open(t, lockrt.Options{}), c).With(lockweb.WithForce(func(*http.Request) error { asked++; return nil }))}
			id, token := v.ask()
			code, body := v.do(http.MethodPost, "?part=force", "id="+id+"&token="+token)
			require.Equal(t, http.StatusOK, code, body)
			require.Contains(t, body, "The lock was taken")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
			require.Equal(t, 2, asked)
			code, body = v.do(http.MethodPost, "?part=force", "id="+id+"&token="+token)
			require.Equal(t, http.StatusConflict, code)
			require.Contains(t, body, "Nothing was taken")
		})
	}
}

// TestForce_OfAJavaProgram shows that the question does not invent how long a Java program has held its lock.
func TestForce_OfAJavaProgram(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	javaHolds(t, server, "k")
	v := &viewer{t: t, page: lockweb.Fleet(c).With(lockweb.WithForce(func(*http.Request) error { return nil }))}
	id, _ := v.ask()
	_, question := v.do(http.MethodGet, "?part=force&id="+id, "")
	require.Contains(t, question, "<dt>Held for</dt><dd>?</dd>")
}

// TestForce_Refused shows that the page refuses to force a lock without permission, without the token, with another
// viewer's token, from another site, or by GET.
func TestForce_Refused(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{})
	lease := hold(t, c.Mutex(redistest.Key(t, "k")))
	var leave error
	page := lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return leave }))
	v, other := &viewer{t: t, page: page}, &viewer{t: t, page: page}
	id, token := v.ask()
	_, otherToken := other.ask()
	refused := func(v *viewer, status int, why, method, query, form string) {
		t.Helper()
		code, body := v.do(method, query, form)
		require.Equal(t, status, code, body)
		require.Contains(t, body, "Nothing was taken")
		require.Contains(t, body, why)
		require.NoError(t, lease.Err())
	}
	const post, forged = http.MethodPost, "has not the token"
	refused(v, http.StatusForbidden, forged, post, "?part=force", "id="+id)
	refused(v, http.StatusForbidden, forged, post, "?part=force&token="+token, "id="+id)
	refused(v, http.StatusForbidden, forged, post, "?part=force", "id="+id+"&token="+otherToken)
	refused(&viewer{t: t, page: page}, http.StatusForbidden, forged, post, "?part=force", "id="+id+"&token="+token)
	refused(&viewer{t: t, page: page, cookies: v.cookies, header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
		http.StatusForbidden, "another site", post, "?part=force", "id="+id+"&token="+token)
	refused(&viewer{t: t, page: page, cookies: v.cookies, header: map[string]string{"Origin": "http://evil.example"}},
		http.StatusForbidden, "another site", post, "?part=force", "id="+id+"&token="+token)
	refused(v, http.StatusConflict, "given the lock back", post, "?part=force", "id=hnothing&token="+token)
	refused(v, http.StatusMethodNotAllowed, "by POST", http.MethodPut, "?part=force", "id="+id+"&token="+token)
	refused(v, http.StatusForbidden, forged, post, "?part=force", "id="+id+"&token="+token+strings.Repeat("x", 5000))
	leave = errNotYou
	refused(v, http.StatusForbidden, "operators alone", post, "?part=force", "id="+id+"&token="+token)
	refused(v, http.StatusForbidden, "operators alone", http.MethodGet, "?part=force&id="+id, "")
	for _, readOnly := range []*lockweb.Page{lockweb.Handler(c), lockweb.Handler(c).With(lockweb.WithForce(nil))} {
		refused(&viewer{t: t, page: readOnly, cookies: v.cookies}, http.StatusForbidden, "read-only", post, "?part=force", "id="+id+"&token="+token)
		_, body := get(t, readOnly, "")
		require.NotContains(t, body, "part=force")
	}
	leave = nil
	code, _ := v.do(post, "?part=force", "id="+id+"&token="+token)
	require.Equal(t, http.StatusOK, code)
}

// TestForce_OfALockThatHasPassedOn shows that the page does not take a lock from a later holder.
func TestForce_OfALockThatHasPassedOn(t *testing.T) {
	t.Parallel()
	c := open(t, lockrt.Options{})
	m := c.Mutex(redistest.Key(t, "k"))
	first := hold(t, m)
	v := &viewer{t: t, page: lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return nil }))}
	id, token := v.ask()
	require.NoError(t, first.Unlock(t.Context()))
	second := hold(t, m)
	code, body := v.do(http.MethodPost, "?part=force", "id="+id+"&token="+token)
	require.Equal(t, http.StatusConflict, code, body)
	require.NoError(t, second.Err())
}

// BenchmarkPage: Look is the cost of a look at 1,000 locks, with the HTML of the changes, which are nothing or
// everything here.
func BenchmarkPage(b *testing.B) {
	c := open(b, lockrt.Options{})
	key := redistest.Key(b, "k")
	for i := range 1000 {
		hold(b, c.Mutex(key+string(rune('a'+i))))
	}
	b.Run("1000", func(b *testing.B) {
		for b.Loop() {
			get(b, lockweb.Handler(c), "")
		}
	})
}
