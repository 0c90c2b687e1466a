package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageSize is how large a front page can be, so that it takes ten minutes to read.
const pageSize = 9 * 1024

// TestReadme_Size bounds the front page in each language.
func TestReadme_Size(t *testing.T) {
	t.Parallel()
	for path, text := range readmes(t) {
		require.LessOrEqual(t, len(text), pageSize, "%s: move text to a page below docs", path)
	}
}

// privateWords have meanings that only this project gave them. docs/terms.md has the field's word for each.
var privateWords = regexp.MustCompile(`(?i)\b(homes?|claims?|claimed|ears?|heirs?|part(y|ies)|unions?|red[- ]lines?|take-?overs?|switch-?overs?|` +
	`vague|tenures?|told of|tells? of|news|litter|whoever)\b`)

// nameless is the beginning of a sentence whose subject has no name: "Who waits ...", "What is held ...".
var nameless = regexp.MustCompile(`(?:^|[.!:;] +|\| *)(Who|What|Whose|Those who|Nobody who|One who|One that)\b`)

// written are the pages that a program writes, or whose headings are questions.
var written = []string{"SIMULATION.md"}

// sentences returns the prose of a page: each string is a paragraph, an item, or a cell of a table.
func sentences(markdown string) (all []string) {
	_, prose := blocks(markdown)
	var paragraph strings.Builder
	flush := func() {
		if paragraph.Len() > 0 {
			all = append(all, paragraph.String())
			paragraph.Reset()
		}
	}
	for line := range strings.Lines(prose) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "<!--"):
			flush()
		case strings.HasPrefix(line, "|"):
			flush()
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
				all = append(all, strings.TrimSpace(cell))
			}
		default:
			if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") {
				flush()
				line = line[2:]
			}
			if paragraph.Len() > 0 {
				paragraph.WriteByte(' ')
			}
			paragraph.WriteString(line)
		}
	}
	flush()
	return all
}

// question is a sentence that may begin with Who or What.
var question = regexp.MustCompile(`(Who|What|Whose)\b[^.!;]*\?`)

// faults returns the faults in the prose of a page.
func faults(markdown string) (all []string) {
	for _, s := range sentences(markdown) {
		s = inline.ReplaceAllString(s, "`code`")
		s = link.ReplaceAllString(s, "]")
		if word := privateWords.FindString(s); word != "" {
			all = append(all, "private word "+word+": "+s)
		}
		if begin := nameless.FindString(question.ReplaceAllString(s, "")); begin != "" {
			all = append(all, "a subject without a name, "+strings.TrimSpace(begin)+": "+s)
		}
	}
	return all
}

// TestPages_Prose shows that the English pages have no private words and no sentences with nameless subjects. CONTRIBUTING.md has the rules.
func TestPages_Prose(t *testing.T) {
	t.Parallel()
	for path, text := range pages(t) {
		if strings.Contains(path, "zh") || slices.Contains(written, filepath.Base(path)) {
			continue
		}
		require.Empty(t, faults(text), path)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Who waits is told.":                               1,
		"It ends. What is held stays.":                     1,
		"What happens then?":                               0,
		"| a | Who loses it |":                             1,
		"The heir gets it, at home.":                       1,
		"A waiter that asks is served. The holder wins.":   0,
		"The server tells the waiter who holds the lock.":  0,
		"`Who` and [Who](Who.md) are names.":               0,
		"```\nWho waits is told of it.\n```\nAn example.":  0,
		"# What can go wrong\n\nA lease can be lost.":      0,
		"- first item\n- Whoever holds it\n":               1,
		"It is lost; who asks sees it: Those who wait too": 1,
	} {
		require.Len(t, faults(text), want, text)
	}
}

// otherTerms are Chinese words for things that docs/zh/terms.md has another word for.
var otherTerms = regexp.MustCompile(`(?i)续租|栅栏令牌|隔离令牌|防护令牌|fencing token|守护线程|看守|多重锁|门闩|倒计时锁|交接|拥有者|租赁|多数派|仪表板`)

// halfWidth is a mark of punctuation beside a Chinese character that is not one of Chinese.
var halfWidth = regexp.MustCompile(`\p{Han} ?[,;:!?]|[,;:!?] ?\p{Han}`)

// chineseFaults returns what is wrong with the prose of a Chinese page.
func chineseFaults(markdown string) (all []string) {
	for _, s := range sentences(markdown) {
		s = inline.ReplaceAllString(s, "`code`")
		s = link.ReplaceAllString(s, "]")
		for _, pattern := range []*regexp.Regexp{otherTerms, halfWidth} {
			if found := pattern.FindString(s); found != "" && found != s { // the page of terms has the English word in a cell
				all = append(all, found+": "+s)
			}
		}
	}
	return all
}

// TestPages_ChineseProse shows that the Chinese pages use one word for one thing, and the punctuation of Chinese.
func TestPages_ChineseProse(t *testing.T) {
	t.Parallel()
	for path, text := range pages(t) {
		if strings.Contains(path, "zh") {
			require.Empty(t, chineseFaults(text), path)
		}
	}
	for text, want := range map[string]int{
		"看门狗为租约续期。": 0, "看门狗续租。": 1, "锁,键": 1, "锁， 键": 0, "`a,锁` 和 [锁](a:b.md)": 0, "三种:是": 1, "Fencing Token 很大": 1, "S2, 16 行": 0,
	} {
		require.Len(t, chineseFaults(text), want, text)
	}
}

// TestPages_Listed shows that every page is in the list of its language, and in the navigation of the site.
func TestPages_Listed(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	site, err := os.ReadFile(filepath.Join("..", "mkdocs.yml"))
	require.NoError(t, err)
	docs := filepath.Join("..", "docs")
	for path := range texts {
		page, err := filepath.Rel(docs, path)
		require.NoError(t, err)
		page = filepath.ToSlash(page)
		if strings.HasPrefix(page, "../") {
			continue // a front page
		}
		require.Contains(t, string(site), ": "+page+"\n", "the navigation of mkdocs.yml")
		if name := filepath.Base(path); name != "index.md" {
			index := filepath.Join(filepath.Dir(path), "index.md")
			require.True(t, strings.Contains(texts[index], "("+name+")"), "%s has no link to %s", index, name)
		}
	}
}
