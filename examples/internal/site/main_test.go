package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	site := fstest.MapFS{
		"index.html": {Data: []byte(`<a href="locks/#mutex">1</a> <a class=x href=locks/>2</a> <img src='a.svg'> <a href="https://example.com/none">3</a>
			<a href="#top">4</a><h1 id="top">x</h1> <a href="locks/#none">5</a> <a href="none/">6</a> <script src="gone.js"></script> <a href=".">7</a>`)},
		"locks/index.html": {Data: []byte(`<h2 id=mutex>Mutex</h2> <a href="..">up</a> <a href="../#top">top</a> <a href="../%E4%B8%AD.html#a&amp;b">zh</a>`)},
		"中.html":           {Data: []byte(`<a name="a&amp;b">x</a>`)},
		"a.svg":            {},
		"404.html":         {Data: []byte(`<a href="/somewhere">elsewhere</a>`)},
	}
	pages, broken, err := check(site)
	require.NoError(t, err)
	require.Equal(t, 3, pages)
	require.Equal(t, []string{"index.html: gone.js", "index.html: locks/#none", "index.html: none/"}, broken)
}
