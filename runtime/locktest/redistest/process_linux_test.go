package redistest

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command keeps what its caller has set, and does not change what other commands share with it.
func TestDieWithParent_KeepsAttributes(t *testing.T) {
	t.Parallel()
	user := &syscall.Credential{Uid: 65534, Gid: 65534}
	shared := &syscall.SysProcAttr{Credential: user}
	cmd := exec.Command("true")
	cmd.SysProcAttr = shared
	dieWithParent(cmd)
	require.Same(t, user, cmd.SysProcAttr.Credential)
	require.Equal(t, syscall.SIGKILL, cmd.SysProcAttr.Pdeathsig)
	require.Equal(t, &syscall.SysProcAttr{Credential: user}, shared)
}
