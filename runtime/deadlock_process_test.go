package lockrt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// diningVariable tells a process that this test binary was started as what to do: the url, its name, the key that it has and the
// one that it wants.
const diningVariable = "LOCKGEN_DEADLOCK_DINER"

// TestDeadlock_Processes has three processes wait for each other. The last one fails with an error that names all three, and the others
// go on.
func TestDeadlock_Processes(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	type diner struct {
		pid   int
		in    io.Writer
		lines chan string
	}
	var all []diner
	for i := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDeadlock_Diner$", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s service%d fork:%d fork:%d", diningVariable, server.URL(), i, i, (i+1)%3))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, redistest.Start(cmd))
		d := diner{cmd.Process.Pid, in, make(chan string, 100)}
		go func() {
			for s := bufio.NewScanner(out); s.Scan(); {
				d.lines <- s.Text()
			}
		}()
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		all = append(all, d)
	}
	for _, d := range all {
		require.Equal(t, "has", receive(t, d.lines, "a process that has its lock"))
	}
	for _, d := range all {
		_, err := io.WriteString(d.in, "go\n")
		require.NoError(t, err)
		require.Equal(t, "waits", receive(t, d.lines, "a process that waits"))
	}
	said := receive(t, all[2].lines, "a process whose call is ended")
	require.True(t, strings.HasPrefix(said, "deadlock "), said)
	for i, d := range all {
		require.Contains(t, said, fmt.Sprintf("diner.Service of service%d", i))
		require.Contains(t, said, fmt.Sprint("pid ", d.pid, " "))
		require.Contains(t, said, fmt.Sprintf("waits for mutex %q since ", fmt.Sprint("fork:", (i+1)%3)))
	}
	require.Equal(t, "got", receive(t, all[1].lines, "the one that waited for it"))
	require.Equal(t, "got", receive(t, all[0].lines, "the first one"))
}

// TestDeadlock_Diner is the process that the test above starts. By itself it tests nothing.
func TestDeadlock_Diner(t *testing.T) { //nolint:paralleltest // it is a process of its own
	orders := strings.Fields(os.Getenv(diningVariable))
	if len(orders) == 0 {
		return
	}
	c := clientOf(t, orders[0], lockrt.Options{
		Name: orders[1], DeadlockAfter: time.Second, BreakDeadlocks: true,
		Hooks: lockrt.Hooks{Waiting: func(context.Context, lockrt.AcquireEvent) { fmt.Println("waits") }},
	})
	lease, err := c.Mutex(orders[2]).Lock(patient(t))
	require.NoError(t, err)
	fmt.Println("has")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	next, err := c.Mutex(orders[3]).Lock(lease.Context(), lockrt.WithName("diner.Service"))
	switch {
	case errors.Is(err, lockrt.ErrDeadlock):
		fmt.Println("deadlock", err)
	case err != nil:
		fmt.Println("failed", err)
	default:
		fmt.Println("got")
		free(t, next)
	}
	free(t, lease)
}
