package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	mutate  = flag.Bool("mutants", false, "build each mutant and run worlds until one fails")
	mutants = flag.String("mutant", "", "only those whose names match")
)

// A mutant is a fault in the runtime or in the scripts.
type mutant struct {
	name   string
	script string // the script that is changed; empty for the file below runtime that has the text
	old    string // the original text, once
	new    string // the text of the mutant
	kind   string // of lock that it is about, whose worlds are run

	strays bool // it breaks no promise that worlds look at, or not at once, but leaves the protocol: its trace is rejected
}

// A caught mutant is one whose worlds have failed.
type caught struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Kind   string `json:"kind"`
	Seed   int    `json:"seed"` // the first that fails
	Told   string `json:"told"`
	Missed bool   `json:"missed"`
}

// mostSeeds is within how many worlds a mutant is found.
const mostSeeds = 1000

// TestMutantsApply shows that each mutant is one change of one file, wherever that is. If a name in its text has changed, the text of the
// mutant has to change, too.
func TestMutantsApply(t *testing.T) {
	sources := sourcesOf(t, root(t))
	names := map[string]bool{}
	for _, m := range slices.Concat(allMutants, strayMutants) {
		t.Run(m.name, func(t *testing.T) {
			_, err := m.file(sources)
			require.NoError(t, err)
			require.NotEqual(t, m.old, m.new)
			require.NotNil(t, kindNamed(m.kind))
			require.False(t, names[m.name], "no other mutant has this name")
			names[m.name] = true
		})
	}
	require.GreaterOrEqual(t, len(allMutants), 20)
	require.GreaterOrEqual(t, len(strayMutants), 10)
}

// TestMutants_AreFoundAnywhere finds the file of a mutant by its text.
func TestMutants_AreFoundAnywhere(t *testing.T) {
	sources := map[string]string{"runtime/a.go": "x y", "runtime/internal/b/b.go": "y z", "scripts/c.lua": "z z w", "scripts/d.lua": "w"}
	for _, tt := range []struct{ script, old, file, err string }{
		{"", "x", "runtime/a.go", ""},
		{"", "z", "runtime/internal/b/b.go", ""},
		{"", "y", "", "2 times, and has to be there once: in runtime/a.go, runtime/internal/b/b.go"},
		{"", "w", "", "0 times"},
		{"c.lua", "w", "scripts/c.lua", ""},
		{"c.lua", "z", "", "2 times"},
		{"d.lua", "x", "", "0 times"},
	} {
		file, err := mutant{script: tt.script, old: tt.old}.file(sources)
		require.Equal(t, tt.file, file)
		if tt.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
	}
}

func root(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return dir
}

// sourcesOf returns the text of each file of the runtime and of each script, by its path below the root of the module. Tests are left out.
func sourcesOf(t *testing.T, root string) map[string]string {
	sources := map[string]string{}
	for _, dir := range []string{"runtime", "scripts"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".lua" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			sources[filepath.ToSlash(name)] = string(text)
			return err
		}))
	}
	return sources
}

// file returns the file that has the original text of a mutant.
func (m mutant) file(sources map[string]string) (string, error) {
	var in []string
	n := 0
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if m.script == "" != strings.HasPrefix(name, "runtime/") || m.script != "" && path.Base(name) != m.script {
			continue
		}
		if found := strings.Count(sources[name], m.old); found > 0 {
			in, n = append(in, name), n+found
		}
	}
	if n != 1 {
		return "", fmt.Errorf("the original text is there %d times, and has to be there once: in %s\n%s", n, strings.Join(in, ", "), m.old)
	}
	return in[0], nil
}

// TestMutants shows that worlds find what is wrong: each mutant fails within 1,000 of them. Without -mutants it hunts one of them.
func TestMutants(t *testing.T) {
	if !*mutate {
		*mutants = "^release without owner$" // the others take minutes: make sim
	}
	var hunted []mutant
	for _, m := range slices.Concat(allMutants, strayMutants) {
		if regexp.MustCompile(*mutants).MatchString(m.name) {
			hunted = append(hunted, m)
		}
	}
	all := make([]caught, len(hunted))
	t.Run("hunt", func(t *testing.T) {
		for i, m := range hunted {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				c := m.hunt(t)
				all[i] = c
				fmt.Fprintf(os.Stderr, "%s: seed %d, %v: %s\n", m.name, c.Seed, time.Since(began).Round(time.Second), c.Told)
				require.False(t, c.Missed, "%d worlds did not find it", mostSeeds)
				if m.strays {
					require.Contains(t, c.Told, "leaves the protocol")
				}
			})
		}
	})
	all = slices.DeleteFunc(all, func(c caught) bool { return c.Name == "" }) // the test binary could not be built or run
	save(t, "mutants.json", all)
}

var firstSeed = regexp.MustCompile(`(?m)^seed (\d+): (.*)$`)

// hunt builds this test with the mutant in place of the file, and runs worlds until one fails.
func (m mutant) hunt(t *testing.T) caught {
	dir := t.TempDir()
	sources := sourcesOf(t, root(t))
	file, err := m.file(sources)
	require.NoError(t, err)
	original, changed := filepath.Join(root(t), file), filepath.Join(dir, path.Base(file))
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(sources[file], m.old, m.new, 1)), 0o644))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	binary := filepath.Join(dir, "sim.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	run := exec.Command(binary, "-test.run", "^TestWorlds$", "-test.timeout", "10m", "-kind", m.kind, "-first", "-seeds", strconv.Itoa(mostSeeds))
	out, err = run.CombinedOutput()
	c := caught{Name: m.name, File: file, Kind: m.kind}
	switch found := firstSeed.FindSubmatch(out); {
	case found != nil:
		c.Seed, _ = strconv.Atoi(string(found[1]))
		c.Told = string(found[2])
	case err == nil:
		c.Missed = true
	default: // it stood still, or broke down
		hung := regexp.MustCompile(`panic: seed (\d+)`).FindSubmatch(out)
		require.NotNil(t, hung, "%s", out[max(0, len(out)-4000):])
		c.Seed, _ = strconv.Atoi(string(hung[1]))
		c.Told = "the world stands still"
	}
	return c
}
