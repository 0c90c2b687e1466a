package examples_test

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// englishOnly are the pages that have no twin in Chinese: they are for developers who change the runtime.
var englishOnly = []string{"SIMULATION.md", "architecture.md"}

// TestPages_Twins shows that each page says the same in both languages: the same code, and in each section the same number of paragraphs, items
// and rows, the same links, the same words of code, and the same figures.
func TestPages_Twins(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	for file := range texts {
		dir, name := filepath.Split(file)
		switch filepath.Clean(dir) {
		case filepath.Join("..", "docs"):
			twin := filepath.Join(dir, "zh", name)
			if slices.Contains(englishOnly, name) {
				continue
			}
			if _, ok := texts[twin]; !ok {
				assert.Fail(t, "a page has no twin", twin)
				continue
			}
			assert.Empty(t, differences("docs", "docs/zh", name, texts), "%s and %s", file, twin)
		case filepath.Join("..", "docs", "zh"):
			assert.Contains(t, texts, filepath.Join("..", "docs", name), "%s is the twin of nothing", file)
		}
	}
}

// differences returns what a page and its twin, which is in another folder, do not have in common.
func differences(dir, ownDir, name string, texts map[string]string) (all []string) {
	code, prose := blocks(texts[filepath.Join("..", dir, name)])
	ownCode, ownProse := blocks(texts[filepath.Join("..", ownDir, name)])
	for i := range max(len(code), len(ownCode)) {
		if i >= len(code) || i >= len(ownCode) || code[i].lang != ownCode[i].lang || !slices.Equal(code[i].lines, ownCode[i].lines) {
			all = append(all, fmt.Sprintf("block of code %d", i+1))
		}
	}
	sections, ownSections := sectionsOf(prose), sectionsOf(ownProse)
	if len(sections) != len(ownSections) {
		return append(all, fmt.Sprintf("%d sections, and %d", len(sections), len(ownSections)))
	}
	for i := range sections {
		facts := factsOf(dir, name, sections[i], texts)
		own := factsOf(ownDir, name, ownSections[i], texts)
		for _, fact := range slices.Sorted(maps.Keys(facts)) {
			if !slices.Equal(facts[fact], own[fact]) {
				title, _, _ := strings.Cut(sections[i], "\n")
				all = append(all, fmt.Sprintf("%s, %s: %q, and %q", title, fact, without(facts[fact], own[fact]), without(own[fact], facts[fact])))
			}
		}
	}
	return all
}

// without returns what one list has more of than the other.
func without(list, other []string) []string {
	other = slices.Clone(other)
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		i := slices.Index(other, s)
		if i >= 0 {
			other = slices.Delete(other, i, i+1)
		}
		return i >= 0
	})
}

// sectionsOf splits prose before each heading.
func sectionsOf(prose string) (all []string) {
	begin := 0
	for _, at := range heading.FindAllStringIndex(prose, -1) {
		if at[0] > begin {
			all = append(all, prose[begin:at[0]])
		}
		begin = at[0]
	}
	return append(all, prose[begin:])
}

var (
	figure  = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
	comment = regexp.MustCompile(`<!--.*?-->`)
)

// factsOf returns what a section has in any language, each list sorted.
func factsOf(dir, name, section string, texts map[string]string) map[string][]string {
	section = comment.ReplaceAllString(section, "")
	facts := map[string][]string{"shape": nil, "links": nil, "code": nil, "figures": nil}
	facts["shape"] = []string{fmt.Sprintf("level %d, %d paragraphs, %d items, %d rows", len(section)-len(strings.TrimLeft(section, "#")),
		strings.Count(section, "\n\n"), strings.Count(section, "\n- "), strings.Count(section, "\n|"))}
	for _, m := range link.FindAllStringSubmatch(section, -1) {
		facts["links"] = append(facts["links"], place(dir, name, m[1], texts))
	}
	section = link.ReplaceAllString(section, "]")
	for _, m := range inline.FindAllStringSubmatch(section, -1) {
		facts["code"] = append(facts["code"], m[1])
	}
	facts["figures"] = figure.FindAllString(inline.ReplaceAllString(section, ""), -1)
	for fact := range facts {
		slices.Sort(facts[fact])
		if fact != "links" {
			facts[fact] = slices.Compact(facts[fact])
		}
	}
	return facts
}

// place returns where a link leads in any language: the path of the file, and which of its headings.
func place(dir, name, target string, texts map[string]string) string {
	if strings.Contains(target, "://") {
		return target
	}
	to, anchor, _ := strings.Cut(target, "#")
	if to == "" {
		to = name
	}
	to = path.Join(dir, to)
	if text, ok := texts[filepath.Join("..", filepath.FromSlash(to))]; ok && anchor != "" {
		_, prose := blocks(text)
		anchor = fmt.Sprintf("heading %d", slices.Index(anchors(prose), anchor)+1)
	}
	to = strings.Replace(to, "docs/zh/", "docs/", 1)
	return strings.Replace(to, ".zh-CN.md", ".md", 1) + "#" + anchor
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	const text = "# A\n\nOne `x` of 30 s, see [b](b.md#two) and [c](../c.md#c).\n\n- item\n\n```go\na\n```\n"
	const same = "# 甲\n\n30 秒的 `x`，见 [c](../../c.md#c) 和 [b](b.md#二)。\n\n- 项\n\n```go\na\n```\n"
	differ := func(chinese string) []string {
		texts := map[string]string{}
		for name, text := range map[string]string{"a.md": text, "b.md": "# One\n\n## Two\n", "zh/a.md": chinese, "zh/b.md": "# 一\n\n## 二\n"} {
			texts[filepath.Join("..", "docs", filepath.FromSlash(name))] = text
		}
		return differences("docs", "docs/zh", "a.md", texts)
	}
	require.Empty(t, differ(same))
	for old, changed := range map[string]string{
		"\na\n": "\nb\n", "```go": "```sh", "30": "31", "`x`": "`y`", "#二": "#一", "c.md#c": "c.md#d", "- 项\n": "- 项\n- 项\n", "# 甲": "## 甲",
		"\n\n- 项": "\n\n| 项", "。\n": "。\n\n又一段\n", "30 秒的": "30 秒的\n\n## 乙\n\n",
	} {
		require.NotEmpty(t, differ(strings.Replace(same, old, changed, 1)), changed)
	}
	require.Len(t, differ(strings.Replace(same, "30", "31", 1)), 1)
}
