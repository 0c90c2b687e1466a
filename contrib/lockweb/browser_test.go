package lockweb_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var picture = flag.String("picture", "", "write the picture of the page to this file")

// patience is the time limit of each step in the browser, which starts slowly on a busy machine.
const patience = 2 * time.Minute

// chromium returns the path of the browser. Without it the test is skipped, but not in CI.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium: .ci/need chromium installs it")
	}
	t.Skip("there is no Chromium: .ci/need chromium installs it")
	return ""
}

// A browser is a window, with the errors that it reported.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

var oneBrowser sync.Mutex // one at a time: each takes some 200 MB

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	oneBrowser.Lock()
	t.Cleanup(oneBrowser.Unlock)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(patience), chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // root cannot run the sandbox
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *cdpruntime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
		}
	}))
	call(b, log.Enable, cdp.Empty{})
	return b
}

// do does something in the window.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// call sends a command to the browser.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	require.NoError(b.t, err)
	return result
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return value
}

// run evaluates an expression without a value.
func (b *browser) run(expression string) {
	b.t.Helper()
	eval[chromedp.Void](b, expression)
}

// await returns when an expression is true, also if the page is another one by then.
func (b *browser) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(b.t, err)
			require.Fail(b.t, "it has not become true: "+expression)
		}
	}
}

// click clicks on the first element that a selector of CSS finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.await(`document.readyState === 'complete' && document.querySelector('` + selector + `') !== null`)
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// calm fails if the browser reported an error about the page: a script that failed, or a violation of the policy.
func (b *browser) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.complaints)
}

const live = `document.getElementById('state').textContent.startsWith('Live')`

func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.await(live)
}

// TestBrowser_AThousandLocks shows that a thousand locks are shown and updated, and logs how long an update took.
// TestEvents_AChangeIsSentWithinASecond bounds the time until the page gets it. On a busy machine a
// bound of the whole way would be one of the machine.
func TestBrowser_AThousandLocks(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{Name: "orders"})
	leases := make([]*lockrt.Lease, 1000)
	for i := range leases {
		leases[i] = hold(t, c.Mutex(redistest.Key(t, fmt.Sprintf("order:%d", i))), lockrt.WithName("orders.Service.Pay"))
	}
	url := serve(t, lockweb.Handler(c))
	began := time.Now()
	b.open(url)
	b.await(`document.querySelectorAll('#held tbody tr').length === 1000`)
	t.Logf("1,000 locks are shown after %v", time.Since(began))
	require.Equal(t, "1000", eval[string](b, `document.querySelector('#summary dd').textContent`))
	require.True(t, eval[bool](b, `[...document.querySelectorAll('#held tbody tr')].every(r => r.cells[3].textContent.startsWith('orders on ') && r.cells[4].textContent !== '')`))

	for i := range leases[:10] {
		began := time.Now()
		require.NoError(t, leases[i].Unlock(t.Context()))
		b.await(fmt.Sprintf(`document.querySelectorAll('#held tbody tr').length === %d`, 999-i))
		t.Logf("a lock that was given back is gone after %v", time.Since(began))
	}
	fresh := hold(t, c.Mutex(redistest.Key(t, "fresh")), lockrt.WithName("orders.Service.Ship"))
	b.await(`document.querySelector('#held tbody tr:last-child').textContent.includes('fresh')`)
	require.NoError(t, fresh.Unlock(t.Context()))

	// Times change without the server, and the order is that of the server.
	b.await(`document.querySelectorAll('#held tbody tr').length === 990`)
	require.True(t, eval[bool](b, `(() => { const s = [...document.querySelectorAll('#held [data-since]')].map(e => +e.dataset.since);
		return s.every((x, i) => i === 0 || s[i-1] <= x); })()`))
	b.click("#pause")
	require.Equal(t, "Paused", eval[string](b, `document.getElementById('state').textContent`))
	b.click("#pause")
	b.await(live)
	b.calm()
}

func TestBrowser_HostileKeysStayText(t *testing.T) {
	b := newBrowser(t)
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Name: hostile, OpTimeout: unhurried})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	m := c.Mutex(hostile)
	hold(t, m, lockrt.WithName(hostile))
	other := hold(t, c.Mutex("third"+hostile), lockrt.WithName(hostile))
	wait(t, c, other.Context(), m, lockrt.WithName(hostile))
	long := "long" + hostile + strings.Repeat("\u202ex", 5000)
	require.Greater(t, len(long), 10<<10)
	javaHolds(t, server, long)
	b.open(serve(t, lockweb.Fleet(c)))
	b.await(`[...document.querySelectorAll('#held tbody tr')].some(r => r.textContent.startsWith('"long'))`)
	text := eval[string](b, `document.body.textContent`)
	require.Contains(t, text, `<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\u202eabc\u2066"'&amp;`)
	require.NotContains(t, text, "\u202e")
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll('script').length`))
	require.Zero(t, eval[int](b, `document.querySelectorAll('img').length`))
	require.Equal(t, "undefined", eval[string](b, `typeof window.hit`))
	b.await(`document.querySelector('#graph svg text') !== null`)

	// A long key takes a few lines until the user unfolds it, and stays unfolded when its row changes.
	row := `[...document.querySelectorAll('#held tbody tr')].find(r => r.textContent.startsWith('"long'))`
	require.Less(t, eval[float64](b, row+`.offsetHeight`), 120.0)
	b.run(row + `.querySelector('summary').click()`)
	require.Greater(t, eval[float64](b, row+`.offsetHeight`), 100.0)
	require.NoError(t, server.Do("PEXPIRE", long, "7200000").Error())
	b.await(row + `.textContent.includes('1h5') || ` + row + `.textContent.includes('2h0')`)
	require.True(t, eval[bool](b, row+`.querySelector('details').open`))
	b.calm()
}

func TestBrowser_Force(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{Name: "orders"})
	lease := hold(t, c.Mutex(redistest.Key(t, "order:42")), lockrt.WithName("orders.Service.Pay"))
	url := serve(t, lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return nil })))
	ask := func() {
		b.open(url)
		b.click(".force")
		b.await(`document.querySelector('form button') !== null && document.readyState === 'complete'`)
		require.Contains(t, eval[string](b, `document.body.textContent`), "order:42")
		require.NoError(t, lease.Err(), "it asks first")
	}
	title := func() string {
		b.click("form button")
		b.await(`document.querySelector('form') === null && document.readyState === 'complete'`)
		return eval[string](b, `document.querySelector('h1').textContent`)
	}
	ask()
	b.run(`document.querySelector('[name=token]').value = ''`)
	require.Equal(t, "Nothing was taken", title())
	require.Contains(t, eval[string](b, `document.body.textContent`), "has not the token")
	require.NoError(t, lease.Err())
	ask()
	require.Equal(t, "The lock was taken", title())
	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
	b.click("main a")
	b.await(live + ` && document.querySelectorAll('#held tbody tr').length === 0 && !document.getElementById('held-none').hidden`)
}

// TestBrowser_ForceFromElsewhere shows that another site cannot send the form, and that scripts
// cannot read the cookie.
func TestBrowser_ForceFromElsewhere(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{})
	lease := hold(t, c.Mutex(redistest.Key(t, "k")))
	url := serve(t, lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return nil })))
	b.open(url)
	b.click(".force")
	b.await(`document.querySelector('form button') !== null && document.readyState === 'complete'`)
	form := eval[string](b, `new URLSearchParams(new FormData(document.querySelector('form'))).toString()`)
	require.Empty(t, eval[string](b, `document.cookie`))
	elsewhere := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s?part=force"><input name="all"><button>go</button></form>`,
			strings.Replace(url, "127.0.0.1", "localhost", 1))
	}))
	b.do(chromedp.Navigate(elsewhere))
	b.await(`document.querySelector('button') !== null`)
	b.run(`(() => { const f = document.querySelector('form'); f.innerHTML = '';
		for (const [n, v] of new URLSearchParams('` + form + `')) { const i = document.createElement('input'); i.name = n; i.value = v; f.append(i); }
		f.submit(); })()`)
	b.await(`document.querySelector('h1') !== null && document.readyState === 'complete'`)
	require.Equal(t, "Nothing was taken", eval[string](b, `document.querySelector('h1').textContent`))
	require.NoError(t, lease.Err())
}

// A silencer passes everything on, as long as nobody has locked it: then what is written waits.
type silencer struct {
	http.ResponseWriter
	gate *sync.RWMutex
}

func (s silencer) Write(p []byte) (int, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.ResponseWriter.Write(p)
}

func (s silencer) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// TestBrowser_Silence shows that the page says when it gets no updates, although no connection ends, and that it goes on with the next update.
func TestBrowser_Silence(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{})
	hold(t, c.Mutex(redistest.Key(t, "k")))
	page, gate := lockweb.Handler(c), new(sync.RWMutex)
	b.open(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(silencer{w, gate}, r) })))
	gate.Lock()
	b.await(`document.getElementById('state').textContent.startsWith('No update since ')`)
	gate.Unlock()
	b.await(live)
	b.calm()
}

func TestBrowser_WithoutJavaScript(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{Name: "orders"})
	m := c.Mutex(redistest.Key(t, "order:42"))
	lease := hold(t, m, lockrt.WithName("orders.Service.Pay"))
	wait(t, c, t.Context(), m, lockrt.WithName("orders.Service.Refund"))
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(serve(t, lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return nil })))))
	text := func(selector string) string {
		return eval[string](b, `document.querySelector('`+selector+`').innerText`)
	}
	held, waiting, state := text("#held tbody"), text("#waiting tbody"), text("#state")
	require.Contains(t, held, "orders.Service.Pay")
	require.Contains(t, waiting, "orders.Service.Refund")
	require.Contains(t, state, "As of ")
	b.click(".force")
	b.click("form button")
	<-lease.Context().Done()
	b.calm()
}

// TestBrowser_KeyboardAndScreenReader shows that the page can be used with the keyboard and a screen reader: the focus
// stays when the page changes, and each part has a name and a role.
func TestBrowser_KeyboardAndScreenReader(t *testing.T) {
	b := newBrowser(t)
	c := open(t, lockrt.Options{Name: "orders"})
	m := c.Mutex(redistest.Key(t, "order:42"))
	hold(t, m, lockrt.WithName("orders.Service.Pay"))
	hold(t, c.Mutex(redistest.Key(t, "stock:tea")), lockrt.WithName("orders.Service.Pack"))
	wait(t, c, t.Context(), m, lockrt.WithName("orders.Service.Refund"))
	b.open(serve(t, lockweb.Handler(c).With(lockweb.WithForce(func(*http.Request) error { return nil }))))
	focus := func() string {
		return eval[string](b, `(e => e.id || e.className || e.tagName + ' ' + e.textContent.slice(0, 20))(document.activeElement)`)
	}
	var passed []string
	for range 40 {
		b.do(chromedp.KeyEvent(kb.Tab))
		passed = append(passed, focus())
		if passed[len(passed)-1] == "force" {
			break
		}
	}
	require.Contains(t, passed, "skip")
	require.Contains(t, passed, "filter")
	require.Contains(t, passed, "pause")
	require.Contains(t, passed, "force", "all that acts can be reached")
	row := eval[string](b, `document.activeElement.closest('tr').textContent`)
	require.Contains(t, row, "order:42")
	wait(t, c, t.Context(), m, lockrt.WithName("orders.Service.Refund"))
	b.await(`document.querySelector('#held tbody tr').cells[6].textContent === '2'`)
	require.Equal(t, "force", focus(), "it keeps the focus while rows change")
	b.do(chromedp.Focus(chromedp.CSS("#filter")), chromedp.KeyEvent("stock"))
	b.await(`[...document.querySelectorAll('#held tbody tr')].filter(r => !r.hidden).length === 1`)

	nodes := call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes
	has := map[string]bool{}
	for _, n := range nodes {
		if n.Role != nil && n.Name != nil && !n.Ignored {
			has[text(n.Role.Value)+" "+text(n.Name.Value)] = true
		}
	}
	for _, want := range []string{
		"heading Locks of this process", "heading Held", "heading Waiting", "region Held", "region Who waits for whom", "columnheader Key", "columnheader Lease left",
		"searchbox Filter", "button Pause", "image Who waits for whom. The list below says the same.", "main ", "status ",
	} {
		require.True(t, has[want], "%s in %v", want, has)
	}
	links := 0
	for name := range has {
		if strings.HasPrefix(name, "link Force ") && strings.Contains(name, "stock:tea") {
			links++
		}
	}
	require.Equal(t, 1, links, "a link says what it is about")
	b.calm()
}

func text(v []byte) string { return strings.Trim(string(v), `"`) }

// contrasts returns text with too little contrast to its background, by the rule of WCAG: 4.5 to 1.
const contrasts = `(() => {
	const channel = x => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(Number).map(channel); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
	const bad = new Set();
	for (const e of document.querySelectorAll('body *')) {
		if (e.closest('svg') || e.closest('.skip') || e.closest('.hidden') || e.offsetParent === null) continue;
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
		const a = light(getComputedStyle(e).color), z = light(behind(e));
		const ratio = (Math.max(a, z) + 0.05) / (Math.min(a, z) + 0.05);
		if (ratio < 4.5) bad.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2));
	}
	return [...bad];
})()`

func TestBrowser_DarkAndLight(t *testing.T) {
	b := newBrowser(t)
	w := newWorld(t)
	b.open(serve(t, w.page))
	backs := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		backs[scheme] = eval[string](b, `getComputedStyle(document.body).backgroundColor`)
		require.Empty(t, eval[[]string](b, contrasts), scheme)
		for level := range 6 { // some levels, since the heat map may not have all
			b.run(fmt.Sprintf(`document.querySelector('.heat td').className = 'h%d', document.querySelector('.heat td').textContent = '1s'`, level))
			require.Empty(t, eval[[]string](b, contrasts), scheme)
		}
	}
	require.NotEqual(t, backs["light"], backs["dark"])
	b.calm()
}

// world is a shop with a deadlock, for pictures.
type world struct{ page http.Handler }

func newWorld(t *testing.T) *world {
	t.Helper()
	server := redistest.Server(t)
	history := &lockweb.History{}
	client := func(name string) *lockrt.Client {
		c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Name: name, OpTimeout: unhurried, DeadlockAfter: -1, Hooks: history.Hooks(lockrt.Hooks{})})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	orders, stock, wallets := client("orders"), client("stock"), client("wallets")
	pay, pack, refund := lockrt.WithName("orders.Service.Pay"), lockrt.WithName("stock.Service.Pack"), lockrt.WithName("wallets.Service.Refund")
	lost := hold(t, wallets.Mutex("wallet:9"), refund)
	taken, err := orders.Mutex("wallet:9").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	<-lost.Context().Done()
	order := hold(t, orders.Mutex("order:42"), pay)
	tea := hold(t, stock.Mutex("stock:tea"), pack)
	wallet := hold(t, wallets.Mutex("wallet:3"), refund)
	hold(t, orders.RWMutex("prices").RLocker(), lockrt.WithName("orders.Service.Quote"))
	hold(t, stock.FairMutex("shelf:7"), lockrt.WithName("stock.Service.Count"))
	permit, err := orders.PermitSemaphore("printers", 3).Acquire(t.Context(), lockrt.WithName("orders.Labels.Print"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = permit.Release(context.Background()) })
	wait(t, orders, order.Context(), orders.Mutex("stock:tea"), pay)
	wait(t, stock, tea.Context(), stock.Mutex("wallet:3"), pack)
	wait(t, wallets, wallet.Context(), wallets.Mutex("order:42"), refund)
	for range 3 {
		wait(t, orders, t.Context(), orders.Mutex("order:42"), lockrt.WithName("orders.Service.Cancel"), lockrt.WithWait(time.Hour))
	}
	wait(t, stock, t.Context(), stock.FairMutex("shelf:7"), pack)
	return &world{lockweb.Handler(orders, stock, wallets).With(lockweb.WithHistory(history), lockweb.WithForce(func(*http.Request) error { return nil }))}
}

// TestBrowser_Picture shows that the picture of the README shows the page; make picture writes it.
func TestBrowser_Picture(t *testing.T) {
	b := newBrowser(t)
	w := newWorld(t)
	b.open(serve(t, w.page))
	b.await(`document.querySelectorAll('#graph .stuck rect').length === 3 && document.querySelector('#losses td') !== null`)
	if *picture != "" {
		b.await(`[...document.querySelectorAll('#held [data-since]')].every(e => parseInt(e.textContent) >= 8 && !e.textContent.endsWith('ms'))`)
	}
	height := eval[int64](b, `document.documentElement.scrollHeight`)
	b.do(chromedp.EmulateViewport(1280, height))
	shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
	img, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	require.Equal(t, 1280, img.Bounds().Dx())
	var small bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewer(img)))
	shot = small.Bytes()
	require.Less(t, len(shot), 200_000)
	if *picture != "" {
		require.NoError(t, os.WriteFile(*picture, shot, 0o644))
	}
	b.calm()
}

// fewer returns an image with its 256 most frequent colours: it loses shades at the edges of letters.
func fewer(img image.Image) *image.Paletted {
	count := map[color.Color]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			count[img.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(img.Bounds(), colours[:min(len(colours), 256)])
	draw.Draw(few, img.Bounds(), img, image.Point{}, draw.Src)
	return few
}
