//go:build site

package lockweb_test

import (
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"

	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// site is the folder that make docs has built the documentation into. The test of it is here because this module has the browser.
var site = flag.String("site", "", "the folder of the site")

// phone is the width of a phone, in pixels.
const phone = 390

// ready is true when the scripts of the theme have done their work on a page: they put each table into a box that scrolls.
const ready = `document.readyState === 'complete' && [...document.querySelectorAll('article table:not([class])')].every(t => t.closest('.md-typeset__scrollwrap'))`

// TestSite shows that a browser finds every link and picture of the site of the documentation, complains about nothing, loads nothing from
// another host, and that each page can be read on a phone: nothing is wider than the window, and text is at least 14 pixels high.
func TestSite(t *testing.T) {
	require.NotEmpty(t, *site, "-args -site DIR")
	files := os.DirFS(*site)
	server := httptest.NewServer(http.FileServerFS(files))
	t.Cleanup(server.Close)
	b := newBrowser(t)
	b.noConsoleErrors()
	b.do(chromedp.EmulateViewport(phone, 844))

	var pages []string
	ids := map[string]map[string]bool{}
	links := map[string]string{} // and a page that has the link
	require.NoError(t, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && path.Base(name) == "index.html" {
			pages = append(pages, "/"+strings.TrimSuffix(name, "index.html"))
		}
		return err
	}))
	for _, page := range pages {
		b.do(chromedp.Navigate(server.URL + page))
		b.await(ready)
		require.Equal(t, strings.HasPrefix(page, "/zh/"), eval[string](b, `document.documentElement.lang`) == "zh", page)
		require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), phone, "%s can be scrolled to the side", page)
		require.Empty(t, eval[[]string](b, wide), page)
		require.Empty(t, eval[[]string](b, `[...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src)`), page)
		require.Empty(t, eval[[]string](b, `performance.getEntriesByType('resource').map(e => e.name).filter(u => !u.startsWith(location.origin))`), page)
		ids[page] = map[string]bool{}
		for _, id := range eval[[]string](b, `[...document.querySelectorAll('[id]')].map(e => e.id)`) {
			ids[page][id] = true
		}
		for _, link := range eval[[]string](b, `[...document.links].map(a => a.href).filter(h => h.startsWith(location.origin))`) {
			links[strings.TrimPrefix(link, server.URL)] = page
		}
	}
	b.calm()
	require.Greater(t, len(pages), 30)

	known := map[string]bool{}
	for link, page := range links {
		u, err := url.Parse(link)
		require.NoError(t, err)
		if !known[u.Path] {
			response, err := http.Get(server.URL + u.EscapedPath())
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, "%s on %s", link, page)
			known[u.Path] = true
		}
		if u.Fragment != "" && ids[u.Path] != nil {
			require.True(t, ids[u.Path][u.Fragment], "%s on %s: no such heading", link, page)
		}
	}
}

// wide returns text of the article that ends to the right of the window and stands in no box that scrolls, and text that is too small.
var wide = fmt.Sprintf(`(() => {
	const bad = new Set();
	for (const e of document.querySelectorAll('article *')) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('.headerlink, .md-clipboard') || e.offsetParent === null) continue;
		const scrolls = e.closest('pre, .md-typeset__scrollwrap');
		if (!scrolls && e.getBoundingClientRect().right > %d) bad.add('wide: ' + e.textContent);
		if (!e.closest('pre, code, table') && parseFloat(getComputedStyle(e).fontSize) < 14) bad.add('small: ' + e.textContent);
	}
	return [...bad];
})()`, phone)

// TestSite_Search shows that the search of the site finds pages in both languages.
func TestSite_Search(t *testing.T) {
	require.NotEmpty(t, *site, "-args -site DIR")
	server := httptest.NewServer(http.FileServerFS(os.DirFS(*site)))
	t.Cleanup(server.Close)
	b := newBrowser(t)
	b.noConsoleErrors()
	for start, search := range map[string]struct{ word, found string }{
		"/":    {"watchdog", "/concepts/"},
		"/zh/": {"看门狗", "/zh/concepts/"},
	} {
		b.do(chromedp.Navigate(server.URL + start))
		b.await(ready)
		b.run(`document.querySelector('label[for=__search]').click()`)
		b.do(chromedp.Focus(chromedp.CSS(".md-search__input")))
		b.run(fmt.Sprintf(`(() => { const i = document.querySelector('.md-search__input'); i.value = %q; i.dispatchEvent(new Event('keyup', {bubbles: true})); i.dispatchEvent(new Event('input', {bubbles: true})); })()`, search.word))
		b.await(fmt.Sprintf(`[...document.querySelectorAll('.md-search-result a')].some(a => new URL(a.href).pathname === %q)`, search.found))
	}
	b.calm()
}

// noConsoleErrors has calm fail for what scripts write to the console as an error, too.
func (b *browser) noConsoleErrors() {
	b.t.Helper()
	require.NoError(b.t, chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*cdpruntime.EventConsoleAPICalled); ok && e.Type == "error" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.complaints = append(b.complaints, fmt.Sprint(e.Args))
		}
	}))
}
