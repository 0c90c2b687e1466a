// Site checks the links of a site of HTML files: each leads to a file of the site, and each fragment to an element that
// has it as its id. Links to other sites are not checked.
//
//	go run ./examples/internal/site site
package main

import (
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	reference = regexp.MustCompile(`(?i)<(?:a|link|script|img|iframe|source)\s[^>]*?\b(?:href|src)=(?:"([^"]*)"|'([^']*)'|([^\s>"']+))`)
	identity  = regexp.MustCompile(`(?i)<[a-z][^>]*?\s(?:id|name)=(?:"([^"]*)"|'([^']*)'|([^\s>"']+))`)
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site DIR")
		os.Exit(2)
	}
	pages, broken, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(2)
	}
	for _, link := range broken {
		fmt.Fprintln(os.Stderr, "site:", link)
	}
	if len(broken) > 0 || pages == 0 {
		fmt.Fprintf(os.Stderr, "site: %d pages, %d links lead nowhere\n", pages, len(broken))
		os.Exit(1)
	}
	fmt.Printf("site: %d pages, every link leads somewhere\n", pages)
}

// A page is a file of HTML: what it links to, and the ids that it has.
type page struct{ links, ids []string }

// check reads the HTML files of a site. It returns their number, and the broken links with their pages.
func check(site fs.FS) (pages int, broken []string, err error) {
	read := map[string]page{}
	files := map[string]bool{}
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = true
		if path.Ext(name) != ".html" || name == "404.html" { // its links are relative to the root of a host
			return nil
		}
		text, err := fs.ReadFile(site, filepath.ToSlash(name))
		read[name] = page{values(reference, string(text)), values(identity, string(text))}
		return err
	})
	for name, p := range read {
		for _, link := range p.links {
			if !leads(name, link, files, read) {
				broken = append(broken, name+": "+link)
			}
		}
	}
	slices.Sort(broken)
	return len(read), slices.Compact(broken), err
}

// values returns the attribute values that an expression matches.
func values(expression *regexp.Regexp, text string) (all []string) {
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		all = append(all, html.UnescapeString(m[1]+m[2]+m[3]))
	}
	return all
}

// leads reports whether a link of a page leads to a file, and to an id if it names one.
func leads(name, link string, files map[string]bool, read map[string]page) bool {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return false
	case u.IsAbs() || u.Host != "":
		return true
	}
	to := name
	if u.Path != "" {
		to = strings.TrimPrefix(path.Join("/", path.Dir(name), u.Path), "/")
		if strings.HasSuffix(u.Path, "/") || path.Ext(to) == "" || strings.HasSuffix(u.Path, ".") {
			to = path.Join(to, "index.html")
		}
	}
	if !files[to] {
		return false
	}
	p, isPage := read[to]
	return u.Fragment == "" || u.Fragment == "__skip" || !isPage || slices.Contains(p.ids, u.Fragment)
}
