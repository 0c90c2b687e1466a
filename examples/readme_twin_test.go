package examples_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	level = regexp.MustCompile(`(?m)^#+ `)
	row   = regexp.MustCompile("(?m)^\\| *(?:(`[^`]*`)|\\[[^\\]]*\\]\\(([^)]*)\\))")
)

// TestReadme_Twins shows that the README has the same content in all its languages: the same code, and as many sections
// and table rows, about the same things.
func TestReadme_Twins(t *testing.T) {
	t.Parallel()
	texts, all := readmes(t), pages(t)
	english := filepath.Join("..", "README.md")
	code, prose := blocks(texts[english])
	for path, text := range texts {
		ownCode, ownProse := blocks(text)
		require.Len(t, ownCode, len(code), path)
		for i, b := range ownCode {
			require.Equal(t, code[i].lang, b.lang, "%s:%d", path, b.line)
			require.Equal(t, code[i].lines, b.lines, "%s:%d", path, b.line)
		}
		require.Equal(t, level.FindAllString(prose, -1), level.FindAllString(ownProse, -1), path)
		require.Equal(t, subjects(prose, all), subjects(ownProse, all), path)
		require.Equal(t, strings.Count(prose, "\n|"), strings.Count(ownProse, "\n|"), path)
	}
}

// subjects returns the things that the rows of tables begin with: a piece of code, or the place that a link leads to, in any language.
func subjects(prose string, texts map[string]string) (all []string) {
	for _, m := range row.FindAllStringSubmatch(prose, -1) {
		if m[1] == "" {
			m[1] = place(".", "README.md", m[2], texts)
		}
		all = append(all, m[1])
	}
	return all
}
