package scripts_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScripts_AreLoadedWhenTheyAreUsed shows that a program that imports the package, and uses no script, builds no
// script and no hash.
func TestScripts_AreLoadedWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	said := regexp.MustCompile(`(?m)^init github.com/lockgen/lockgen/scripts @.* ([0-9]+) bytes`).FindSubmatch(out)
	require.NotNil(t, said, "what it does while it is initialized: %s", out)
	bytes, err := strconv.Atoi(string(said[1]))
	require.NoError(t, err)
	require.Less(t, bytes, 64<<10, "the scripts are more than a megabyte")
}
