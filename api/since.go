package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// lastRelease returns the file with the API of the last release, api/v1.2.3.txt, or "" before the first one.
func lastRelease(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "api", "v*.txt"))
	if err != nil {
		return "", err
	}
	var last string
	var version [3]int
	for _, file := range files {
		var v [3]int
		if n, err := fmt.Sscanf(filepath.Base(file), "v%d.%d.%d.txt", &v[0], &v[1], &v[2]); n != 3 || err != nil {
			return "", fmt.Errorf("%s: the name is no version: it is v1.2.3.txt", file)
		}
		if last == "" || slices.Compare(v[:], version[:]) > 0 {
			last, version = file, v
		}
	}
	return last, nil
}

// unexplained returns the lines of the last release that are gone, and that CHANGELOG.md does not mention in its
// changes since then.
func unexplained(dir string, now []string) ([]string, error) {
	file, err := lastRelease(dir)
	if file == "" || err != nil {
		return nil, err
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	changes := unreleased(string(changelog))
	var lines []string
	for _, line := range diff(split(string(before)), now) {
		if gone, ok := strings.CutPrefix(line, "-"); ok && !mentions(changes, subject(gone)) {
			lines = append(lines, gone)
		}
	}
	return lines, nil
}

// unreleased returns the section of a changelog about the next release.
func unreleased(changelog string) string {
	_, after, _ := strings.Cut(changelog, "\n## [Unreleased]\n")
	section, _, _ := strings.Cut(after, "\n## ")
	return section
}

var about = []*regexp.Regexp{
	regexp.MustCompile(`^pkg \S+, method \(\*?(\w+)[^)]*\) (\w+)`),
	regexp.MustCompile(`^pkg \S+, type (\w+) (?:struct|interface), (?:embedded \S*?)?(\w+)(?:[\[(, ]|$)`),
	regexp.MustCompile(`^pkg \S+, (?:const|var|func|type) (\w+)`),
}

// subject returns the name of the thing in a line, as users write it: Client.Close, New.
func subject(line string) string {
	for _, form := range about {
		if found := form.FindStringSubmatch(line); found != nil {
			return strings.Join(found[1:], ".")
		}
	}
	return line
}

// mentions reports whether a text names a thing in code: `New`, `Client.Close`, `lockrt.Open(ctx, ...)`.
func mentions(text, name string) bool {
	return regexp.MustCompile("`[^`]*\\b" + regexp.QuoteMeta(name) + "\\b[^`]*`").MatchString(text)
}

// split returns the sorted lines of a file.
func split(text string) []string {
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	slices.SortFunc(lines, cmp.Compare[string])
	return lines
}
