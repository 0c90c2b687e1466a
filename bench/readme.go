package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readmes are the pages with figures of the results.
var readmes = []string{
	filepath.Join("..", "README.md"),
	filepath.Join("..", "README.zh-CN.md"),
	filepath.Join("..", "docs", "limits.md"),
	filepath.Join("..", "docs", "zh", "limits.md"),
}

// rowsOf returns the rows of the short table of results, by the scenario's name, as lists of cells.
func rowsOf(results string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(results) {
		if name, cells, ok := cellsOf(line, "("); ok && len(cells) == 6 {
			rows[name] = cells
		}
	}
	return rows
}

// goalsOf returns the rows of the table of goals, by the scenario's name and the goal.
func goalsOf(results string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(results) {
		if goal, ok := goalOf(line); ok {
			rows[goal] = line
		}
	}
	return rows
}

// goalOf returns the scenario's name and the goal of a row of the table of goals.
func goalOf(line string) (goal string, ok bool) {
	if !strings.HasPrefix(line, "| S") {
		return "", false
	}
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
	return strings.Join(cells[:min(2, len(cells))], ": "), len(cells) == 4
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

// refresh replaces the figures in the rows of a page by those of the results: all cells but the name and the words
// about it, and whole rows of the table of goals. It returns the number of rows that it knows.
func refresh(readme, results string) (string, int) {
	rows, goals := rowsOf(results), goalsOf(results)
	var b strings.Builder
	known := 0
	for line := range strings.Lines(readme) {
		name, cells, ok := cellsOf(line, "bench/RESULTS.md")
		if from := rows[name]; ok && from != nil && len(cells) == len(from) {
			known++
			line = fmt.Sprintf("| %s | %s | %s |\n", cells[0], cells[1], strings.Join(from[2:], " | "))
		}
		if goal, ok := goalOf(line); ok && goals[goal] != "" {
			known++
			line = goals[goal]
		}
		b.WriteString(line)
	}
	return b.String(), known
}

// refreshReadmes does so in the files, from the results in folder.
func refreshReadmes(folder string) error {
	results, err := os.ReadFile(filepath.Join(folder, "RESULTS.md"))
	if err != nil {
		return err
	}
	for _, file := range readmes {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fresh, known := refresh(string(text), string(results))
		if known == 0 {
			return fmt.Errorf("%s has no rows of the results", file)
		}
		if err := os.WriteFile(file, []byte(fresh), 0o644); err != nil {
			return err
		}
	}
	return nil
}
