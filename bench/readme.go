package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readmes are those that show figures of the results.
var readmes = []string{filepath.Join("..", "README.md"), filepath.Join("..", "README.zh-CN.md")}

// rowsOf returns the rows of the short table of results, by the scenario's name, as lists of cells.
func rowsOf(results string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(results) {
		if name, cells, ok := cellsOf(line, "#"); ok && len(cells) == 6 {
			rows[name] = cells
		}
	}
	return rows
}

// cellsOf splits a row that begins with a link to a scenario, in the file that is given.
func cellsOf(line, file string) (name string, cells []string, ok bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "| [S") {
		return "", nil, false
	}
	cells = strings.Split(strings.Trim(line, "| "), " | ")
	name, rest, _ := strings.Cut(strings.TrimPrefix(cells[0], "["), "]")
	return name, cells, strings.HasPrefix(rest, "("+file)
}

// refresh replaces the figures in the rows of a README by those of the results: all but the name and the words
// about it. It returns how many rows it knows.
func refresh(readme string, rows map[string][]string) (string, int) {
	var b strings.Builder
	known := 0
	for line := range strings.Lines(readme) {
		name, cells, ok := cellsOf(line, "bench/RESULTS.md")
		if from := rows[name]; ok && from != nil && len(cells) == len(from) {
			known++
			line = fmt.Sprintf("| %s | %s | %s |\n", cells[0], cells[1], strings.Join(from[2:], " | "))
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
		fresh, known := refresh(string(text), rowsOf(string(results)))
		if known == 0 {
			return fmt.Errorf("%s has no rows of the results", file)
		}
		if err := os.WriteFile(file, []byte(fresh), 0o644); err != nil {
			return err
		}
	}
	return nil
}
