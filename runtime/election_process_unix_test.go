//go:build unix

package lockrt_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// candidateVariable tells a process that this test binary was started as what to stand for: the address of the server, the
// name of the election and its own name.
const candidateVariable = "LOCKGEN_ELECTION_CANDIDATE"

// TestElection_Candidate is a process that stands for election and has a schedule. It says when it leads, and no longer, and which
// intervals it runs, until its input ends.
func TestElection_Candidate(t *testing.T) {
	t.Parallel()
	orders := strings.Fields(os.Getenv(candidateVariable))
	if len(orders) == 0 {
		return // this is not that process
	}
	c, err := opened(t.Context(), orders[0], lockrt.Options{Watchdog: 4 * time.Second})
	require.NoError(t, err)
	var said sync.Mutex
	say := func(words ...any) {
		said.Lock()
		defer said.Unlock()
		fmt.Println(words...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	led := later(func() error {
		return c.Election(orders[1]).Lead(ctx, orders[2], func(ctx context.Context, l *lockrt.Leadership) error {
			say("leads", l.Token())
			<-ctx.Done()
			say("lost", l.Token())
			return ctx.Err()
		})
	})
	ran := later(func() error {
		return c.Every(orders[1]+":job", 100*time.Millisecond, func(_ context.Context, tick lockrt.Tick) error {
			say("ran", tick.Start.UnixMilli())
			return nil
		}).Run(ctx)
	})
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	require.Error(t, err)
	cancel()
	require.ErrorIs(t, <-led, context.Canceled)
	require.ErrorIs(t, <-ran, context.Canceled)
	require.NoError(t, c.Close())
}

// A candidacy is such a process as a test sees it.
type candidacy struct {
	cmd  *exec.Cmd
	stop func()
}

// TestElection_Processes has three processes stand for election and run a schedule; leaders are killed, stopped and told to go.
func TestElection_Processes(t *testing.T) {
	t.Parallel()
	server, office := redistest.Shared(t), redistest.Key(t, "office")
	told := observe(t, newClient(t, lockrt.Options{}).Election(office))
	leads(t, told, "")

	var mu sync.Mutex
	ran := map[int64]string{}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(ran)
	}
	lost := make(chan string, 1000)
	start := func(name string) *candidacy {
		cmd := exec.Command(os.Args[0], "-test.run=^TestElection_Candidate$", "-test.timeout=3m")
		cmd.Env = append(os.Environ(), candidateVariable+"="+server.URL()+" "+office+" "+name)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, redistest.Start(cmd))
		read := make(chan struct{})
		go func() {
			defer close(read)
			for s := bufio.NewScanner(out); s.Scan(); {
				words := strings.Fields(s.Text())
				switch {
				case len(words) == 2 && words[0] == "lost":
					lost <- name
				case len(words) == 2 && words[0] == "ran":
					at, err := strconv.ParseInt(words[1], 10, 64)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					if by, twice := ran[at]; twice {
						t.Errorf("the interval %d ran in %s and in %s", at, by, name)
					}
					ran[at] = name
					mu.Unlock()
				}
			}
		}()
		once := sync.OnceFunc(func() {
			_ = in.Close()
			<-read
			_ = cmd.Wait()
		})
		t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGCONT); _ = cmd.Process.Kill(); once() })
		return &candidacy{cmd, once}
	}
	all := map[string]*candidacy{}
	for _, name := range []string{"a", "b", "c"} {
		all[name] = start(name)
	}
	// another returns the next leader that is not the one before, and checks that its token is larger.
	before, token := "", int64(0)
	another := func() string {
		t.Helper()
		for {
			got := receive(t, told, "another leader")
			require.NoError(t, got.err)
			if got.Token == 0 || got.Value == before {
				continue
			}
			require.Greater(t, got.Token, token)
			before, token = got.Value, got.Token
			return got.Value
		}
	}
	runsOn := func() {
		t.Helper()
		n := count()
		until(t, "the schedule goes on", func() bool { return count() > n+5 })
	}
	first := another()
	runsOn()
	require.NoError(t, all[first].cmd.Process.Kill())
	second := another()
	runsOn()
	require.NoError(t, all[second].cmd.Process.Signal(syscall.SIGSTOP))
	third := another()
	runsOn()
	require.NoError(t, all[second].cmd.Process.Signal(syscall.SIGCONT))
	for receive(t, lost, "the one that was stopped to notice it") != second { // on a busy machine others may be late, too
	}
	all[third].stop()
	require.Equal(t, second, another(), "which had lost the lead, and stands for it again")
	runsOn()
	all[second].stop()
	until(t, "nobody leads", func() bool { got := <-told; return got.Token == 0 })
}
