package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/interop/redisson"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// theVersion returns the requested version of Redisson.
func theVersion(t *testing.T) string {
	t.Helper()
	if *version != "" {
		return *version
	}
	return newest(t)
}

// newest returns the version of Redisson that java/pom.xml names.
func newest(t *testing.T) string {
	t.Helper()
	version, err := redisson.Newest("java")
	require.NoError(t, err)
	return version
}

// A jvm is a running Java program. Its methods may be called from any goroutine.
type jvm struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	orders  int
	pending map[int]chan answer // nil when the program has ended
}

// answer is the result of an order.
type answer struct {
	text         string
	err          error
	began, ended time.Time
}

var errEnded = errors.New("the Java program has ended")

// startJava runs the Java program, with a version of Redisson, until the test ends.
func startJava(t *testing.T, version string) *jvm {
	t.Helper()
	path, err := redisson.Classpath("java", version)
	require.NoError(t, err)
	j := &jvm{pending: map[int]chan answer{}, ended: make(chan struct{})}
	// It is small, and many processes share the machine.
	j.cmd = exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", path, "peer.Peer")
	j.cmd.Stderr = t.Output()
	j.in, err = j.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := j.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, redistest.Start(j.cmd)) // the program may not see the end of its input in time
	go j.listen(out)
	t.Cleanup(func() {
		_ = j.in.Close() // makes the program end
		select {
		case <-j.ended:
		case <-time.After(10 * time.Second):
			_ = j.cmd.Process.Kill()
			<-j.ended
		}
		_ = j.cmd.Wait()
	})
	return j
}

func (j *jvm) listen(out io.Reader) {
	defer close(j.ended)
	for s := bufio.NewScanner(out); s.Scan(); {
		words := strings.SplitN(s.Text(), " ", 5)
		if len(words) < 5 {
			continue // not an answer: a library prints a greeting
		}
		id, err := strconv.Atoi(words[0])
		if err != nil {
			continue
		}
		a := answer{text: words[4], began: stamp(words[2]), ended: stamp(words[3])}
		if words[1] != "ok" {
			a.text, a.err = "", errors.New(words[4])
		}
		j.mu.Lock()
		pending := j.pending[id]
		delete(j.pending, id)
		j.mu.Unlock()
		if pending != nil {
			pending <- a
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pending := range j.pending {
		pending <- answer{err: errEnded}
	}
	j.pending = nil
}

func stamp(word string) time.Time {
	micros, _ := strconv.ParseInt(word, 10, 64)
	return time.UnixMicro(micros)
}

// tell gives an order to a thread of a client. The channel gets its result.
func (j *jvm) tell(client, thread string, words ...string) <-chan answer {
	done := make(chan answer, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pending == nil {
		done <- answer{err: errEnded}
		return done
	}
	j.orders++
	j.pending[j.orders] = done
	line := fmt.Sprintf("%d %s %s %s\n", j.orders, client, thread, strings.Join(words, " "))
	if _, err := io.WriteString(j.in, line); err != nil {
		delete(j.pending, j.orders)
		done <- answer{err: err}
	}
	return done
}

// die ends the program at once, as a crash does, and returns when it is gone.
func (j *jvm) die() {
	j.tell("-", "-", "die")
	<-j.ended
}

// A thread is a thread of a Redisson client.
type thread struct {
	j            *jvm
	client, name string
}

// thread returns another thread of the same client.
func (th thread) thread(name string) thread { return thread{th.j, th.client, name} }

// start gives an order and does not wait for it.
func (th thread) start(words ...string) <-chan answer {
	return th.j.tell(th.client, th.name, words...)
}

// parked returns when the thread waits for a message. Redisson asks once more after it has subscribed, and loses
// messages to readers between that and the wait.
func (th thread) parked(t *testing.T) {
	t.Helper()
	looks := th.thread("looks-at-" + th.name)
	require.Eventually(t, func() bool { return looks.do(t, "parked", th.name) == "true" },
		patience, time.Millisecond, "it does not wait")
}

// call gives an order and waits until it is done or ctx ends.
func (th thread) call(ctx context.Context, words ...string) (string, error) {
	select {
	case a := <-th.start(words...):
		return a.text, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("java: %s: %w", strings.Join(words, " "), context.Cause(ctx))
	}
}

// do gives an order that must succeed soon.
func (th thread) do(t *testing.T, words ...string) string {
	t.Helper()
	text, err := th.call(soon(t), words...)
	require.NoError(t, err, strings.Join(words, " "))
	return text
}

// fails gives an order that must fail soon, and returns its error.
func (th thread) fails(t *testing.T, words ...string) string {
	t.Helper()
	_, err := th.call(soon(t), words...)
	require.Error(t, err, strings.Join(words, " "))
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it failed by itself")
	require.NotErrorIs(t, err, errEnded)
	return err.Error()
}
