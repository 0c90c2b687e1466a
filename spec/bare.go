package spec

import (
	"path/filepath"
	"regexp"
	"strings"
)

// comments match the comments of modules, by the ends of the names of their files.
var comments = map[string]*regexp.Regexp{
	".tla": regexp.MustCompile(`(?s)\(\*.*?\*\)|\\\*[^\n]*`),
	".pml": regexp.MustCompile(`(?s)/\*.*?\*/`),
}

// Bare returns what a checker reads of a module: its text without comments, spaces at the ends of lines, and empty lines.
func Bare(file, text string) string {
	var b strings.Builder
	for line := range strings.Lines(comments[filepath.Ext(file)].ReplaceAllString(text, "")) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
