package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
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
	name string
	file string // below the root of the module
	old  string // the original text, once
	new  string // the text of the mutant
	kind string // of lock that it is about, whose worlds are run

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
const mostSeeds = 300

// TestMutantsApply shows that each mutant is one change of a file that is there.
func TestMutantsApply(t *testing.T) {
	for _, m := range slices.Concat(allMutants, strayMutants) {
		t.Run(m.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root(t), m.file))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "%s says this once:\n%s", m.file, m.old)
			require.NotNil(t, kindNamed(m.kind))
		})
	}
	require.GreaterOrEqual(t, len(allMutants), 20)
	require.GreaterOrEqual(t, len(strayMutants), 10)
}

func root(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return dir
}

// TestMutants shows that worlds find what is wrong: each mutant fails within 300 of them. Without -mutants it hunts one of them.
func TestMutants(t *testing.T) {
	if !*mutate {
		*mutants = "^release without owner$" // the others take minutes: make sim
	}
	var all []caught
	for _, m := range slices.Concat(allMutants, strayMutants) {
		if !regexp.MustCompile(*mutants).MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			c := m.hunt(t)
			all = append(all, c)
			fmt.Fprintf(os.Stderr, "%s: seed %d, %v: %s\n", m.name, c.Seed, time.Since(began).Round(time.Second), c.Told)
			require.False(t, c.Missed, "%d worlds did not find it", mostSeeds)
			if m.strays {
				require.Contains(t, c.Told, "leaves the protocol")
			}
		})
	}
	save(t, "mutants.json", all)
}

var firstSeed = regexp.MustCompile(`(?m)^seed (\d+): (.*)$`)

// hunt builds this test with the mutant in place of the file, and runs worlds until one fails.
func (m mutant) hunt(t *testing.T) caught {
	dir := t.TempDir()
	original := filepath.Join(root(t), m.file)
	text, err := os.ReadFile(original)
	require.NoError(t, err)
	changed := filepath.Join(dir, filepath.Base(m.file))
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o644))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	binary := filepath.Join(dir, "sim.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	run := exec.Command(binary, "-test.run", "^TestWorlds$", "-test.timeout", "10m", "-kind", m.kind, "-first", "-seeds", strconv.Itoa(mostSeeds))
	out, err = run.CombinedOutput()
	c := caught{Name: m.name, File: m.file, Kind: m.kind}
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
