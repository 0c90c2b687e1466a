package examples_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// directive is a comment for a tool.
var directive = regexp.MustCompile(`^//([a-z0-9]+:[a-z]|nolint|lint:)`)

// goComments returns the comments of a Go file, those on neighbouring lines as one text, by their first lines.
func goComments(path string, source []byte) (map[int]string, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	names := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch declared := node.(type) {
		case *ast.FuncDecl:
			names[declared.Name.Name] = true
		case *ast.TypeSpec:
			names[declared.Name.Name] = true
		}
		return true
	})
	all := map[int]string{}
	for _, group := range file.Comments {
		var lines []string
		for _, c := range group.List {
			if !directive.MatchString(c.Text) {
				lines = append(lines, strings.TrimPrefix(c.Text, "//"))
			}
		}
		text := paragraphs(lines)
		if name, rest, ok := strings.Cut(withoutArticle(text), " "); ok && names[name] {
			text = "It " + rest // the name of a declaration is code
		}
		if !strings.HasPrefix(text, "Output:") && !strings.HasPrefix(text, "Unordered output:") {
			all[positions.Position(group.Pos()).Line] = text
		}
	}
	return all, nil
}

// withoutArticle returns a text without the article that it begins with.
func withoutArticle(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "A "), "An ")
}

// luaComments returns the comments of a Lua file in the same way.
func luaComments(source string) map[int]string {
	all := map[int]string{}
	begin, lines := 0, []string(nil)
	flush := func() {
		if lines != nil {
			all[begin] = paragraphs(lines)
			lines = nil
		}
	}
	number := 0
	for line := range strings.Lines(source) {
		number++
		code, text, found := strings.Cut(line, "--")
		if !found || strings.TrimSpace(code) != "" {
			flush()
		}
		if found {
			if lines == nil {
				begin = number
			}
			lines = append(lines, strings.TrimRight(text, "\n"))
		}
	}
	flush()
	return all
}

// paragraphs joins the lines of a comment. An empty line, and one that is indented as code or as a table, begins a new line.
func paragraphs(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed != strings.TrimPrefix(line, " ") {
			b.WriteByte('\n')
		} else if !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimSpace(line))
	}
	return strings.TrimSpace(b.String())
}

// namelessComment finds a subject without a name: at the beginning of a sentence, where the first word of a comment may have a small letter,
// since a comment behind code is no whole sentence, and, as in "one who waits", anywhere.
var namelessComment = regexp.MustCompile(`(?:^|[.!:;] )(Who|What|Whose|Whoever|Those who|Nobody who|One who|That which|Is told|It is told)\b|` +
	`^(who|what|whose|whoever)\b|\n(Who|What|Whose|Whoever)\b|\b([Tt]o|[Ww]ith|[Ff]or|[Ff]rom|[Oo]nly|[Tt]han|[Tt]hat|[Mm]any|[Aa]ll|[Ll]ast|[Nn]ext|[Oo]f one,?|[Bb]y|is|has|have) who\b|\b([Oo]nes?|[Tt]hose|([Ss]ome|[Aa]ny)body|[Nn]obody|[Ee]verybody) who\b`)

// quoted is text of a comment that names code, quotes a text, or has another meaning than the private word in it.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|home director(y|ies)")

// commentFaults returns the faults of the prose of a comment.
func commentFaults(text string) (all []string) {
	text = question.ReplaceAllString(quoted.ReplaceAllString(text, "Q"), "Q")
	if word := privateWords.FindString(text); word != "" {
		all = append(all, "private word "+word)
	}
	if begin := namelessComment.FindString(text); begin != "" {
		all = append(all, "a subject without a name, "+strings.TrimSpace(begin))
	}
	return all
}

// TestComments_Prose shows that the comments of Go and Lua files have no private words, and no sentences with nameless subjects.
func TestComments_Prose(t *testing.T) {
	t.Parallel()
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "site" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		extension := filepath.Ext(path)
		if extension != ".go" && extension != ".lua" {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var comments map[int]string
		if extension == ".lua" {
			comments = luaComments(string(source))
		} else if comments, err = goComments(path, source); err != nil {
			return err
		}
		files++
		for line, text := range comments {
			for _, fault := range commentFaults(text) {
				t.Errorf("%s:%d: %s: %s", path, line, fault, text)
			}
		}
		return nil
	}))
	require.Greater(t, files, 500, "the files of the module")
}

func TestCommentFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Lock waits. Who waits is told.":               1,
		"what is left of it":                           1,
		"the lease of a waiter":                        0,
		"It returns the owner, who holds the lock.":    0,
		"Does it hold? Who has it?":                    0,
		"the party that waits":                         1,
		"It has a \"claim\" in the home directory.":    0,
		"A list:\nWhat it holds":                       1,
		"Only who has it unlocks it.":                  1,
		"It shows that who enters has it.":             1,
		"It is handed to who waits, or to who asks.":   1,
		"It says who waits, and for which lock.":       0,
		"Redis tells of it. Whoever listens hears it.": 2,
	} {
		require.Len(t, commentFaults(text), want, text)
	}
	require.Len(t, commentFaults(paragraphs([]string{" Lock waits.", "", " Who waits is next."})), 1, "of a second paragraph")
	comments, err := goComments("a.go", []byte("package a\n\n// Whoever is code.\ntype Whoever int\n\nfunc f() {\n\t// Who\n\t// waits.\n\tf() //nolint:x // who\n}\n"))
	require.NoError(t, err)
	require.Equal(t, map[int]string{3: "It is code.", 7: "Who waits.", 9: ""}, comments)
	require.Equal(t, map[int]string{1: "Takes a lock.\n\nKEYS[1]  the lock\n\nReply: 1", 6: "who"},
		luaComments("-- Takes a lock.\n--\n--   KEYS[1]  the lock\n--\n--   Reply: 1\nlocal a = 1 -- who\n"))
}
