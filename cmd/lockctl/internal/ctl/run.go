package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A grant is the lock under which a command runs.
type grant struct {
	ctx   context.Context // ends when the lock is lost
	token int64
	until func() time.Time // the end of the trust if nothing renews the lease
	free  func() error
}

// run runs a command under a lock. A signal that arrives during the wait ends the wait, and run starts no command after
// it.
func run(ctx context.Context, o *options) int {
	key, command := survey.KeyOf(o.args[0]), o.args[1:]
	if command[0] == "--" {
		command = command[1:]
	}
	switch n := btoi(o.reads) + btoi(o.fair) + btoi(o.permits != 0); {
	case len(command) == 0:
		return o.fail(exitUsage, errors.New("there is no command after the key"))
	case n > 1:
		return o.fail(exitUsage, errors.New("-read, -fair and -permits exclude each other"))
	case o.fence && (o.reads || o.permits != 0):
		return o.fail(exitUsage, errors.New("-fence goes with a lock for one at a time"))
	case o.watchdog == 0: // which Options takes for the default
		return o.fail(exitUsage, errors.New("-watchdog 0s is no time"))
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return o.fail(cannotRun(err), err)
	}

	signals := make(chan os.Signal, 32)
	signal.Notify(signals, heeded(ending)...)
	defer signal.Stop(signals)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var first os.Signal // a signal before the command started
	noted, stop, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case first = <-signals:
			close(noted)
			cancel()
		case <-stop:
		}
	}()
	settle := sync.OnceFunc(func() { close(stop); <-over })
	defer settle()
	fail := func(err error) int {
		select {
		case <-noted:
			return exitSignalBase + number(first)
		default:
			return o.fail(codeOf(err), err)
		}
	}

	if err := o.open(waiting, lockrt.Options{Watchdog: o.watchdog}); err != nil {
		return fail(err)
	}
	defer func() { _ = o.c.Close() }()
	g, err := o.lock(waiting, key)
	if err != nil {
		return fail(err)
	}
	settle()
	if first != nil { // the signal came together with the lock
		_ = g.free()
		return exitSignalBase + number(first)
	}
	code, lost := o.child(g, path, command, key, signals)
	err = g.free()
	if lost || errors.Is(err, lockrt.ErrLost) {
		fmt.Fprintf(o.Stderr, "lockctl run: the lock %s was lost while the command ran\n", quoted(key))
		return exitLost
	}
	if err != nil {
		_ = o.fail(exitNoRedis, err) // the lock expires by itself
	}
	return code
}

// heeded returns the signals without those that lockctl was started to ignore, as by nohup. The command then ignores them, too.
func heeded(signals []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func cannotRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// lock acquires the lock of the flags.
func (o *options) lock(ctx context.Context, key string) (*grant, error) {
	opts := []lockrt.LockOption{lockrt.WithWait(o.wait), lockrt.WithName("lockctl run " + fitName(o.args[1:]))}
	if o.permits > 0 {
		p, err := o.c.PermitSemaphore(key, o.permits).Acquire(ctx, opts...)
		if err != nil {
			return nil, err
		}
		return &grant{p.Context(), 0, p.Until, func() error { return p.Release(ctx) }}, nil
	}
	var locker lockrt.Locker = o.c.Mutex(key)
	switch {
	case o.reads:
		locker = o.c.RWMutex(key).RLocker()
	case o.fair:
		locker = o.c.FairMutex(key)
	}
	if o.fence {
		opts = append(opts, lockrt.WithFencing())
	}
	l, err := locker.Lock(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &grant{l.Context(), l.Token(), l.Until, func() error { return l.Unlock(ctx) }}, nil
}

// fitName returns the name of a command, without its arguments: they may be secrets.
func fitName(command []string) string {
	if command[0] == "--" {
		command = command[1:]
	}
	return fit(command[0][strings.LastIndexByte(command[0], '/')+1:], 100)
}

// child runs the command. It returns how the command ended, and whether the lock was lost meanwhile. After a loss child
// asks the command to end, and kills it before another holder can have the lock: Redis keeps the lock longer than the
// lease is trusted, by a tenth of the lease, at most 3s. If lockctl cannot do that, because it was stopped or killed, a
// guard does.
func (o *options) child(g *grant, path string, command []string, key string, signals chan os.Signal) (code int, lost bool) {
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	// A lockctl around this one has a token, too: it is not that of this lock.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKGEN_TOKEN=") })
	name := key
	if strings.Contains(key, "\x00") { // an environment has no such byte
		name = quoted(key)
	}
	cmd.Env = append(cmd.Env, "LOCKGEN_KEY="+name)
	if g.token != 0 {
		cmd.Env = append(cmd.Env, "LOCKGEN_TOKEN="+strconv.FormatInt(g.token, 10))
	}
	alone(cmd)
	margin := min(o.watchdog/10, 3*time.Second)
	left := func() time.Duration { return time.Until(g.until()) + margin*2/3 }
	guard, err := startGuard(left())
	if err != nil {
		fmt.Fprintf(o.Stderr, "lockctl run: the command may outlive the lock if lockctl is stopped: %s\n", clean(err.Error()))
	}
	defer guard.dismiss()
	if g.ctx.Err() != nil {
		return exitLost, true
	}
	signal.Notify(signals, heeded(passedOn)...) // before the command starts: a signal to lockctl alone would let it go on without renewals
	started, stops, ended := make(chan error, 1), make(chan syscall.Signal), make(chan int, 1)
	go func() {
		runtime.LockOSThread() // the command would die with the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- wait(cmd, stops)
		}
	}()
	if err := <-started; err != nil {
		return o.fail(cannotRun(err), err), false
	}
	job := newJob(cmd, signals)
	defer job.end()
	guard.watch(cmd.Process.Pid, left())
	due := time.Now().Add(left()) // when the guard kills the command
	overdue := false              // this process was stopped until then
	renewals := time.NewTicker(max(o.watchdog/20, 10*time.Millisecond))
	defer renewals.Stop()
	done := g.ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case <-renewals.C:
			overdue = !time.Now().Before(due)
			due = time.Now().Add(left())
			guard.extend(left())
		case s := <-signals:
			job.signal(cmd, s)
		case s := <-stops:
			job.stopped(s)
		case <-job.again:
			job.resume()
		case <-done:
			done, lost = nil, true
			pass(cmd, syscall.SIGTERM)
			kill = time.After(margin / 2)
		case <-kill:
			kill = nil
			pass(cmd, syscall.SIGKILL)
		case code = <-ended:
			// If lockctl was stopped, the guard has killed the command, and that is known before the loss is. The guard
			// may not know of the last renewal: then the lock is not lost, and the command is dead all the same.
			overdue = overdue || !time.Now().Before(due)
			lost = lost || g.ctx.Err() != nil || !time.Now().Before(g.until()) || overdue && code != exitOK
			if lost {
				pass(cmd, syscall.SIGKILL) // to the processes that the command has left behind
			}
			return code, lost
		}
	}
}
