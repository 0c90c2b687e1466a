package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A page has figures of the results.
type page struct {
	file   string
	rows   []string          // the scenarios of its short table; those of the results if there are none
	words  map[string]string // about scenarios that the page does not have yet; those of the results if there are none
	missed string            // the heading above the goals that are missed
	behind string            // how the line of the scenarios begins in which another library is ahead
}

var pages = []page{
	{file: filepath.Join("..", "README.md"), rows: inReadme, words: map[string]string{"S17": "1 goroutine, one key again and again, `WithLinger`"},
		behind: "Another library is ahead in: "},
	{file: filepath.Join("..", "README.zh-CN.md"), rows: inReadme, words: map[string]string{"S17": "1 个 goroutine，反复锁同一个键，`WithLinger`"},
		behind: "其他库领先的场景："},
	{file: filepath.Join("..", "docs", "limits.md"), missed: "## Goals that are missed"},
	{file: filepath.Join("..", "docs", "zh", "limits.md"), missed: "## 没有达到的目标", words: map[string]string{
		"S14":            "被观测的客户端；此处列出 lockprom 下的 Do",
		"S15":            "`lockctl list` 列出持有中的锁",
		"S16":            "`lockctl list -scan` 扫描有大量键的服务器",
		"S17":            "一个 goroutine，反复锁同一个键；此处列出 WithLinger",
		"S17, neighbour": "另一个进程想要刚刚解锁的键；此处列出 WithLinger",
		"S18":            "在三节点的集群中持有并续期许多锁",
		"S19":            "300 个客户端，一个 RWMutex，各自以写方式加锁",
		"S20, 4":         "4 个 goroutine，无竞争的键",
		"S20, 8":         "8 个 goroutine，无竞争的键",
		"S20, busy 16":   "处理器繁忙：16 个 goroutine，无竞争的键",
		"S20, busy 64":   "处理器繁忙：64 个 goroutine，无竞争的键",
		"S20, busy 256":  "处理器繁忙：256 个 goroutine，无竞争的键",
		"S20, far 8":     "远处的服务器：8 个 goroutine，无竞争的键",
		"S20, far 64":    "远处的服务器：64 个 goroutine，无竞争的键",
		"S20, far 256":   "远处的服务器：256 个 goroutine，无竞争的键",
	}},
}

var inReadme = []string{"S1", "S2, 16", "S3, 100", "S4", "S4b", "S17"}

// A result is a row of the short table, as a list of cells, with the rows of its goals.
type result struct {
	name  string
	cells []string
	goals []string
}

// resultsOf reads the tables of the results, in their order.
func resultsOf(text string) []*result {
	var all []*result
	for line := range strings.Lines(text) {
		if name, cells, ok := cellsOf(line, "("); ok && len(cells) == 6 {
			all = append(all, &result{name: name, cells: cells})
		}
		if name, ok := goalOf(line); ok {
			for _, r := range all {
				if r.name == name {
					r.goals = append(r.goals, line)
				}
			}
		}
	}
	return all
}

// missed reports whether the row of a goal says so.
func missed(goal string) bool { return strings.Contains(goal, "| **no**") }

// behind reports whether another library is ahead.
func (r *result) behind() bool {
	ratio, err := strconv.ParseFloat(strings.TrimSuffix(r.cells[4], "x"), 64)
	return err == nil && ratio < 1
}

// goalOf returns the name of the scenario of a row of the table of goals.
func goalOf(line string) (scenario string, ok bool) {
	if !strings.HasPrefix(line, "| S") {
		return "", false
	}
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
	return cells[0], len(cells) == 4
}

// cellsOf splits a row that begins with a link to a scenario, in a file whose path ends in file.
func cellsOf(line, file string) (name string, cells []string, ok bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "| [S") {
		return "", nil, false
	}
	cells = strings.Split(strings.Trim(line, "| "), " | ")
	name, rest, _ := strings.Cut(strings.TrimPrefix(cells[0], "["), "]")
	path, _, _ := strings.Cut(rest, ")")
	path, anchor, _ := strings.Cut(path, "#")
	return name, cells, anchor != "" && strings.HasPrefix(path, "(") && strings.HasSuffix(path, file)
}

// refresh writes the figures of a page again, from the results, and returns the number of its rows that have some.
func (p *page) refresh(text, results string) (string, int) {
	all := resultsOf(results)
	var fresh []string
	written := 0
	heading := ""
	for lines := slices.Collect(strings.Lines(text)); len(lines) > 0; {
		line := lines[0]
		lines = lines[1:]
		switch {
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimSpace(line)
		case p.behind != "" && strings.HasPrefix(line, p.behind):
			line = p.behind + behind(all) + "\n"
		}
		fresh = append(fresh, line)
		if !strings.HasPrefix(line, "|---") {
			continue
		}
		end := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "|") })
		if end < 0 {
			end = len(lines)
		}
		rows, figures := p.table(heading, lines[:end], all)
		if figures {
			written += len(rows)
		}
		fresh, lines = append(fresh, rows...), lines[end:]
	}
	return strings.Join(fresh, ""), written
}

// table returns the rows of a table of the page as they are now: the short table with the words of the page, the goals
// that are missed, or all goals of the scenarios that the table has. Other tables stay as they are.
func (p *page) table(heading string, rows []string, all []*result) (now []string, figures bool) {
	var scenarios []string // of a table of goals
	texts := maps.Clone(p.words)
	link := ""
	for _, row := range rows {
		if scenario, ok := goalOf(row); ok && !slices.Contains(scenarios, scenario) {
			scenarios = append(scenarios, scenario)
		}
		if name, cells, ok := cellsOf(row, "bench/RESULTS.md"); ok {
			if texts == nil {
				texts = map[string]string{}
			}
			texts[name] = cells[1]
			_, link, _ = strings.Cut(cells[0], "(")
			link, _, _ = strings.Cut(link, "#")
		}
	}
	switch {
	case p.missed != "" && heading == p.missed:
		for _, r := range all {
			for _, goal := range r.goals {
				if missed(goal) {
					now = append(now, goal)
				}
			}
		}
	case link != "":
		for _, r := range all {
			if p.rows != nil && !slices.Contains(p.rows, r.name) {
				continue
			}
			_, anchor, _ := strings.Cut(r.cells[0], "(")
			now = append(now, fmt.Sprintf("| [%s](%s%s | %s | %s |\n", r.name, link, anchor, cmp.Or(texts[r.name], r.cells[1]), strings.Join(r.cells[2:], " | ")))
		}
	case scenarios != nil:
		for _, r := range all {
			if slices.Contains(scenarios, r.name) {
				now = append(now, r.goals...)
			}
		}
	default:
		return rows, false
	}
	return now, true
}

// behind lists the scenarios in which another library is ahead.
func behind(all []*result) string {
	var names []string
	for _, r := range all {
		if r.behind() {
			names = append(names, r.name)
		}
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, "; ") + "."
}

// refreshPages does so in the files, from the results in folder.
func refreshPages(folder string) error {
	results, err := os.ReadFile(filepath.Join(folder, "RESULTS.md"))
	if err != nil {
		return err
	}
	for _, p := range pages {
		text, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		fresh, rows := p.refresh(string(text), string(results))
		if rows == 0 {
			return fmt.Errorf("%s has no rows of the results", p.file)
		}
		if err := os.WriteFile(p.file, []byte(fresh), 0o644); err != nil {
			return err
		}
	}
	return nil
}
