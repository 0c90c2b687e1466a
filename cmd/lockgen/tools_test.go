//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/internal/testmodule"
)

// TestTools runs the commands of docs/tools.md, in a module where nothing is wrong, and in one that has an output by hand and a lease
// that nobody unlocks.
func TestTools(t *testing.T) {
	t.Parallel()
	page := document(t, "tools.md")
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)\n```").FindAllStringSubmatch(page, -1) {
		commands = append(commands, strings.Split(block[1], "\n")...)
	}
	for _, entry := range regexp.MustCompile(`(?m)^ +entry: (.*)$`).FindAllStringSubmatch(page, -1) {
		commands = append(commands, entry[1])
	}
	require.Len(t, commands, 5, "three commands, and two of pre-commit")

	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	good, bad := t.TempDir(), t.TempDir()
	for _, dir := range []string{good, bad} {
		require.NoError(t, testmodule.Write(dir, root, module))
		mod, err := os.OpenFile(filepath.Join(dir, "go.mod"), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = mod.WriteString("\ntool github.com/lockgen/lockgen/cmd/lockgen\n")
		require.NoError(t, err)
		require.NoError(t, mod.Close())
		write(t, dir, "shop.go", `package shop

import "context"

// Shop sells.
//
//lockgen:service wait=3s
type Shop interface {
	// Sell holds shop:{id}.
	//
	//lockgen:lock key=shop:{id}
	Sell(ctx context.Context, id int) error
}
`)
		var stdout, stderr strings.Builder
		require.Zero(t, cli.Main([]string{"-cache=off", "./..."}, dir, &stdout, &stderr), "%s", &stderr)
	}
	output := filepath.Join(bad, "shop_lockgen.go")
	text, err := os.ReadFile(output)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(output, append(text, "\n// by hand\n"...), 0o600))
	write(t, bad, "forget.go", `package shop

import (
	"context"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Forget never unlocks its lease.
func Forget(ctx context.Context, client *lockrt.Client) error {
	lease, err := client.Mutex("k").Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Err()
}
`)
	for _, command := range commands {
		for dir, want := range map[string]bool{good: true, bad: false} {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
			out, err := cmd.CombinedOutput()
			if want {
				require.NoError(t, err, "%s\n%s", command, out)
				continue
			}
			require.Error(t, err, command)
			says := "lease is not unlocked"
			if strings.Contains(command, "-check") {
				says = "by hand"
			}
			require.Contains(t, string(out), says, command)
		}
	}
}

// write writes a file of a module.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
