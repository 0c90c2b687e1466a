// Package releases reads the file RELEASES: a line for each release, with its version, its commit and its date, the newest last.
package releases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Release is a line of the file.
type Release struct {
	Version string // v1.2.3
	Commit  string // 40 hexadecimal digits
	Date    time.Time
}

var (
	version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
	commit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Read returns the releases of the module in the directory, in their order.
func Read(dir string) ([]Release, error) {
	text, err := os.ReadFile(filepath.Join(dir, "RELEASES"))
	if err != nil {
		return nil, err
	}
	return parse(string(text))
}

func parse(text string) (all []Release, err error) {
	var last []int
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		wrong := func(what string) error { return fmt.Errorf("RELEASES:%d: %s: %s", number+1, line, what) }
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, wrong("a line is a version, a commit and a date")
		}
		if !version.MatchString(fields[0]) {
			return nil, wrong("the version is not of the form v1.2.3")
		}
		if !commit.MatchString(fields[1]) {
			return nil, wrong("the commit is not 40 hexadecimal digits")
		}
		date, err := time.Parse(time.DateOnly, fields[2])
		if err != nil {
			return nil, wrong("the date is not of the form 2006-01-02")
		}
		numbers := make([]int, 3)
		if _, err := fmt.Sscanf(fields[0], "v%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]); err != nil {
			return nil, wrong("the version is too large")
		}
		if slices.Compare(numbers, last) <= 0 {
			return nil, wrong("the version is not later than the one before")
		}
		last = numbers
		all = append(all, Release{fields[0], fields[1], date})
	}
	return all, nil
}

// In reports whether the clone in the directory has the commit of the release. A shallow clone may lack it. For a full clone
// that is an error.
func (r Release) In(dir string) (bool, error) {
	if exec.Command("git", "-C", dir, "cat-file", "-e", r.Commit+"^{commit}").Run() == nil {
		return true, nil
	}
	shallow, err := exec.Command("git", "-C", dir, "rev-parse", "--is-shallow-repository").Output()
	if err != nil {
		return false, fmt.Errorf("%s: no clone of git in %s: %w", r.Version, dir, err)
	}
	if strings.TrimSpace(string(shallow)) != "true" {
		return false, fmt.Errorf("%s: this clone has no commit %s: RELEASES lists a commit that is on the branch", r.Version, r.Commit)
	}
	return false, nil
}
