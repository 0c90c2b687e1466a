// Package replicas starts a program several more times, as processes that are replicas of one service. It prints their
// output in the order in which they wrote it, and can send a line to each of them, pause it and kill it.
package replicas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

// nameVar is the environment variable with the name of the replica.
const nameVar = "LOCKGEN_EXAMPLE_REPLICA"

// Name returns the name of the replica that this process is. It is empty in the program that the user started.
func Name() string { return os.Getenv(nameVar) }

// Join returns a context that ends when the replica has to stop, and the lines that the program sends to the replica.
func Join() (ctx context.Context, told <-chan string) {
	signal.Ignore(os.Interrupt) // a terminal sends it to all processes; the program decides
	ctx, cancel := context.WithCancel(context.Background())
	lines := make(chan string, 16)
	go func() {
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return ctx, lines
}

// Say prints one line about what the replica does.
func Say(format string, args ...any) {
	said := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	_, _ = io.WriteString(os.Stdout, Name()+" "+said+"\n")
}

// URL returns the address of the server that the environment variable REDIS_URL names, or of one that it starts
// inside this program until stop is called.
func URL(redisURL string) (url string, stop func(), err error) {
	if redisURL != "" {
		return redisURL, func() {}, nil
	}
	return embedded.Start()
}

// A Group is the replicas that a program has started.
type Group struct {
	url     string
	env     []string
	out     io.Writer
	began   time.Time
	pipe    *os.File // all replicas write to it, so that the output has the order of the events
	lines   chan string
	members map[string]*member
}

type member struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	killed atomic.Bool
	ended  chan struct{}
}

// NewGroup returns a group without members. All members use the server at url and have env in their environment. The
// group prints their output to out.
func NewGroup(url string, out io.Writer, env ...string) (*Group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g := &Group{url: url, env: env, out: out, began: time.Now(), pipe: w, lines: make(chan string), members: map[string]*member{}}
	go func() {
		defer r.Close()
		defer close(g.lines)
		for in := bufio.NewScanner(r); in.Scan(); {
			g.lines <- in.Text()
		}
	}()
	return g, nil
}

// Start starts the program again, as the replica of this name. A killed replica can be started
// again.
func (g *Group) Start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), g.env...), nameVar+"="+name, "REDIS_URL="+g.url)
	cmd.Stdout, cmd.Stderr = g.pipe, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	g.members[name] = m
	go func() {
		defer close(m.ended)
		if err := cmd.Wait(); err != nil && !m.killed.Load() {
			fmt.Fprintf(g.pipe, "%s %s%v\n", name, failed, err) // after everything that the replica said
		}
	}()
	return nil
}

// failed begins the line about a replica that ended with an error. No replica says it by itself.
const failed = "\x00"

// Await prints what the replicas say until each of texts has been the beginning of a line, in any order, and returns
// the name of the replica that said the first one. It fails if ctx ends, or if a replica ends that was not killed.
func (g *Group) Await(ctx context.Context, texts ...string) (name string, err error) {
	first := texts[0]
	texts = slices.Clone(texts)
	for len(texts) > 0 {
		who, said, err := g.next(ctx)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(texts, func(text string) bool { return strings.HasPrefix(said, text) })
		if i < 0 {
			continue
		}
		if texts[i] == first {
			name = who
		}
		texts = slices.Delete(texts, i, i+1)
	}
	return name, nil
}

// next prints and returns the next line of any replica.
func (g *Group) next(ctx context.Context) (name, said string, err error) {
	select {
	case line, ok := <-g.lines:
		if !ok {
			return "", "", io.EOF
		}
		name, said, _ = strings.Cut(line, " ")
		if cause, ok := strings.CutPrefix(said, failed); ok {
			return name, said, fmt.Errorf("replica %s: %s", name, cause)
		}
		g.Print(name, said)
		return name, said, nil
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
}

// Print prints a line about somebody else in the format of a replica's line.
func (g *Group) Print(name, said string) {
	fmt.Fprintf(g.out, "%7.3fs  %-8s  %s\n", time.Since(g.began).Seconds(), name, said)
}

// Tell sends a line to a replica. A dead replica does not receive it.
func (g *Group) Tell(name, what string) { _, _ = io.WriteString(g.members[name].stdin, what+"\n") }

// Kill ends a replica as a crash does, and returns when it is gone.
func (g *Group) Kill(name string) {
	m := g.members[name]
	m.killed.Store(true)
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// Resume resumes a replica that has paused itself.
func (g *Group) Resume(name string) error { return resume(g.members[name].cmd.Process) }

// Close stops all replicas, prints the rest of their output, and waits for them. It fails if one of them ended with an
// error.
func (g *Group) Close() error {
	for _, m := range g.members {
		_ = m.stdin.Close()
	}
	go func() {
		patience := time.AfterFunc(20*time.Second, func() { // a replica may need 10 s to end what it does
			for _, m := range g.members {
				_ = m.cmd.Process.Kill()
			}
		})
		for _, m := range g.members {
			<-m.ended
		}
		patience.Stop()
		_ = g.pipe.Close()
	}()
	var errs []error
	for {
		_, _, err := g.next(context.Background())
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		errs = append(errs, err)
	}
}
