//go:build unix

package lockrt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// sleeperVariable tells a process that this test binary was started as what to hold: the address
// of the server, the prefix of its keys, and how they are leased.
const sleeperVariable = "LOCKGEN_FAULT_SLEEPER"

// sleeperKeys is how many keys the process holds that is stopped.
const sleeperKeys = 40

// TestFault_Sleeper is the process that is stopped. It says when it holds its keys, looks at its
// leases as soon as it is told to, and unlocks them.
func TestFault_Sleeper(t *testing.T) {
	t.Parallel()
	orders := strings.Fields(os.Getenv(sleeperVariable))
	if len(orders) == 0 {
		return // this is not that process
	}
	c, err := opened(t.Context(), orders[0], lockrt.Options{Watchdog: time.Second})
	require.NoError(t, err)
	var opts []lockrt.LockOption
	if orders[2] == "fixed" {
		opts = append(opts, lockrt.WithLease(time.Second))
	}
	leases := make([]*lockrt.Lease, sleeperKeys)
	for i := range leases {
		leases[i], err = c.Mutex(orders[1]+strconv.Itoa(i)).Lock(t.Context(), opts...)
		require.NoError(t, err)
	}
	fmt.Println("held")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	told, ended, unlocked := 0, 0, 0
	for _, lease := range leases {
		if errors.Is(lease.Err(), lockrt.ErrLost) {
			told++
		}
		if lease.Context().Err() != nil && errors.Is(context.Cause(lease.Context()), lockrt.ErrLost) {
			ended++
		}
	}
	for _, lease := range leases {
		if errors.Is(lease.Unlock(t.Context()), lockrt.ErrLost) {
			unlocked++
		}
	}
	fmt.Println("saw", told, ended, unlocked)
	require.NoError(t, c.Close())
}

func TestFault_StoppedProcessLearnsAtTheFirstLook(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"renewed", "fixed"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, prefix := redistest.Shared(t), redistest.Key(t, "k")
			cmd := exec.Command(os.Args[0], "-test.run=^TestFault_Sleeper$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), sleeperVariable+"="+server.URL()+" "+prefix+" "+kind)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, redistest.Start(cmd))
			defer func() { _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			lines := make(chan string, 100)
			go func() {
				defer close(lines)
				for s := bufio.NewScanner(out); s.Scan(); {
					lines <- s.Text()
				}
			}()
			require.Equal(t, "held", receive(t, lines, "the process to hold its keys"))
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))

			// The next holder comes when the leases are over.
			c := newClient(t, lockrt.Options{})
			next := make([]*lockrt.Lease, sleeperKeys)
			for i := range next {
				next[i], err = c.Mutex(prefix + strconv.Itoa(i)).Lock(patient(t))
				require.NoError(t, err)
			}
			_, err = in.Write([]byte("look\n"))
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			require.Equal(t, fmt.Sprintf("saw %d %d %d", sleeperKeys, sleeperKeys, sleeperKeys), receive(t, lines, "what it saw"))
			for _, lease := range next {
				_, err = lease.TTL(patient(t))
				require.NoError(t, err, "the late unlock harms nobody")
				require.NoError(t, lease.Unlock(t.Context()))
			}
		})
	}
}
