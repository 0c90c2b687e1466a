package examples_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A block is a fenced piece of a Markdown file.
type block struct {
	lang  string
	line  int // of the fence
	lines []string
}

// blocks returns the fenced blocks, and the text around them.
func blocks(markdown string) (fenced []block, prose string) {
	var b strings.Builder
	var open *block
	for i, line := range strings.Split(markdown, "\n") {
		lang, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open == nil && fence:
			open = &block{lang: strings.TrimSpace(lang), line: i + 1}
		case open == nil:
			b.WriteString(line + "\n")
		case fence:
			fenced = append(fenced, *open)
			open = nil
		default:
			open.lines = append(open.lines, line)
		}
	}
	return fenced, b.String()
}

// dedent removes the common indentation of all lines, and trailing space.
func dedent(lines []string) []string {
	indent, first := "", true
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		own := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if first {
			indent, first = own, false
		}
		for !strings.HasPrefix(own, indent) {
			indent = indent[:len(indent)-1]
		}
	}
	flat := make([]string, len(lines))
	for i, line := range lines {
		flat[i] = strings.TrimRight(strings.TrimPrefix(line, indent), " \t\r")
	}
	return flat
}

// within reports whether the file contains the block, at any indentation.
func within(wanted []string, file string) bool {
	wanted = dedent(wanted)
	lines := strings.Split(file, "\n")
	for start := range len(lines) - len(wanted) + 1 {
		if slices.Equal(dedent(lines[start:start+len(wanted)]), wanted) {
			return true
		}
	}
	return false
}

// sources returns the Go files below this folder, and those of the comparison with other libraries.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, dir := range []string{".", filepath.Join("..", "bench")} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			source, err := os.ReadFile(path)
			files[path] = string(source)
			return err
		}))
	}
	return files
}

// readmes are the READMEs in all their languages.
func readmes(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "README*.md"))
	require.NoError(t, err)
	require.Contains(t, paths, filepath.Join("..", "README.md"))
	texts := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
	}
	return texts
}

// pages are the READMEs and the pages below docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := readmes(t)
	for _, pattern := range []string{"*.md", filepath.Join("zh", "*.md")} {
		paths, err := filepath.Glob(filepath.Join("..", "docs", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[path] = string(text)
		}
	}
	return texts
}

// documents are the pages, those for contributors, and those of folders.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := pages(t)
	for _, name := range []string{
		"../CHANGELOG.md", "../CODE_OF_CONDUCT.md", "../CONTRIBUTING.md", "../SECURITY.md", "../bench/README.md", "../interop/README.md",
		"../runtime/ACL.md", "../runtime/CHAOS.md", "service/README.md",
	} {
		path := filepath.FromSlash(name)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
	}
	return texts
}

// TestReadme_Code shows that the code that readers copy is compiled and run here: each block is
// part of an example, or a whole file that compiles.
func TestReadme_Code(t *testing.T) {
	t.Parallel()
	files := sources(t)
	for path, text := range pages(t) {
		if filepath.Base(path) == "generator.md" {
			continue // TestGuide of cmd/lockgen generates, compiles and runs its program
		}
		fenced, _ := blocks(text)
		for _, b := range fenced {
			if b.lang != "go" {
				continue
			}
			found := false
			for _, source := range files {
				found = found || within(b.lines, source)
			}
			if !found {
				compiles(t, path, b)
			}
		}
	}
}

// compiles requires that the block is a whole file and compiles.
func compiles(t *testing.T, path string, b block) {
	t.Helper()
	source := strings.Join(b.lines, "\n")
	require.Regexp(t, `(?m)^package \w+$`, source,
		"%s:%d: this code is neither part of a file below examples nor a whole file", path, b.line)
	file := filepath.Join(t.TempDir(), "block.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
	require.NoError(t, err, "%s:%d: %s", path, b.line, out)
}

var (
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeCall = regexp.MustCompile(`^(?:[A-Z_]+=\S+ +)*make ([a-z][a-z-]*)`)
	local    = regexp.MustCompile(`(?:^|\s)\./([^\s]+)`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	inline   = regexp.MustCompile("`([^`\n]+)`")
	folder   = regexp.MustCompile(`^\s*go -C (\S+)`)
)

// TestReadme_Commands shows that the targets and folders that commands of the documents name exist.
func TestReadme_Commands(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	require.NoError(t, err)
	var targets []string
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	for path, text := range documents(t) {
		for _, command := range commands(text) {
			for _, m := range makeCall.FindAllStringSubmatch(strings.TrimSpace(command), -1) {
				require.Contains(t, targets, m[1], "%s: %s", path, command)
			}
			if !strings.HasPrefix(strings.TrimSpace(command), "go ") {
				continue // ./ is the reader's own folder
			}
			dir := ".."
			if m := folder.FindStringSubmatch(command); m != nil {
				dir = filepath.Join(dir, m[1])
			}
			for _, m := range local.FindAllStringSubmatch(command, -1) {
				name := strings.TrimSuffix(m[1], "...")
				_, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					_, err = os.Stat(filepath.Join(filepath.Dir(path), name)) // commands of a folder's own page
				}
				require.NoError(t, err, "%s: %s", path, command)
			}
		}
	}
}

// commands returns the commands that a document tells the reader to type.
func commands(markdown string) []string {
	fenced, prose := blocks(markdown)
	var all []string
	for _, b := range fenced {
		if slices.Contains([]string{"", "sh", "bash", "shell", "console"}, b.lang) {
			all = append(all, b.lines...)
		}
	}
	for _, m := range inline.FindAllStringSubmatch(prose, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestReadme_Links shows that links of the documents lead to files and headings that exist.
func TestReadme_Links(t *testing.T) {
	t.Parallel()
	texts := documents(t)
	for path, text := range texts {
		_, prose := blocks(text)
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if to != "" {
				file := filepath.Join(filepath.Dir(path), filepath.FromSlash(to))
				_, err := os.Stat(file)
				require.NoError(t, err, "%s: %s", path, m[1])
				if other, ok := texts[file]; ok && anchor != "" {
					_, prose := blocks(other)
					require.Contains(t, anchors(prose), anchor, "%s: no heading for %s", path, m[1])
				}
				continue
			}
			require.Contains(t, anchors(prose), anchor, "%s: no heading for #%s", path, anchor)
		}
	}
}

// anchors returns the names that GitHub gives to headings.
func anchors(prose string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	fenced, prose := blocks("# A `b`: c\n\n```go\na\n```\ntext `make test` [x](#a-b-c)\n\n  ```sh\n  make demo # runs\n  go run ./examples/orders\n  ```\n")
	require.Equal(t, []block{
		{"go", 3, []string{"a"}},
		{"sh", 8, []string{"  make demo # runs", "  go run ./examples/orders"}},
	}, fenced)
	require.Equal(t, []string{"a-b-c"}, anchors(prose))
	require.Equal(t, []string{"  make demo # runs", "  go run ./examples/orders", "make test"},
		slices.DeleteFunc(commands("```sh\n  make demo # runs\n  go run ./examples/orders\n```\n`make test`"), func(s string) bool { return s == "" }))
}

func TestWithin(t *testing.T) {
	t.Parallel()
	const file = "func f() {\n\tif x {\n\t\treturn\n\t}\n\n\tg()\n}\n"
	require.True(t, within([]string{"if x {", "\treturn", "}", "", "g()"}, file))
	require.True(t, within([]string{"\t\tg()"}, file))
	require.False(t, within([]string{"if x {", "return", "}"}, file), "inner indentation counts")
	require.False(t, within([]string{"h()"}, file))
}
