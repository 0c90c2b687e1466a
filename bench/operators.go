package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// How S15 and S16 look at locks.
const (
	mostListed  = 10_000                 // locks, of as many clients as processes answer within their bound
	listClients = 100                    // which share them
	lists       = 4                      // lists of a round
	listPause   = 250 * time.Millisecond // between them: a process answers 10 times a second
	sweepShare  = 100                    // keys of a sweep for each lock of the environment
	tooSlow     = 2 * time.Millisecond   // for a command of a sweep
	watchedSlow = 100 * time.Microsecond // from which on the server records how long a command takes
	slowEntries = "100000"               // of these commands at most
)

// lockctl builds the program and returns where it is, and what removes it.
func lockctl(ctx context.Context) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "lockgen-bench")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "lockctl")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/lockgen/lockgen/cmd/lockctl").CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, remove, nil
}

// A seen is the part of the output of lockctl list -json that matters here.
type seen struct {
	Locks   []json.RawMessage `json:"locks"`
	Silent  []string          `json:"silent"`
	Swept   int               `json:"swept"`
	Partial bool              `json:"partial"`

	took, cpu time.Duration // of the command, and of the server
}

// list runs lockctl list.
func (s *server) list(ctx context.Context, path string, flags ...string) (l seen, err error) {
	before, err := s.probe()
	if err != nil {
		return l, err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"list", "-json", "-timeout", "30s", "-url", "redis://" + s.addr}, flags...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return l, fmt.Errorf("lockctl: %w: %s", err, errs.Bytes())
	}
	l.took = time.Since(before.at)
	after, err := s.probe()
	if err != nil {
		return l, err
	}
	l.cpu = after.cpu - before.cpu
	return l, json.Unmarshal(out, &l)
}

// listing lists locks that clients hold which nobody waits for.
func listing(ctx context.Context, e *env, _ library) (metrics, error) {
	path, remove, err := lockctl(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	number := min(e.held, mostListed)
	clients := min(number, listClients)
	var all []*lockrt.Client
	defer func() {
		var closed sync.WaitGroup
		for _, c := range all {
			closed.Go(func() { _ = c.Close() })
		}
		closed.Wait()
	}()
	prefix := fresh()
	for i := range clients {
		c, err := lockrt.Open(ctx, "redis://"+e.addr, lockrt.Options{Name: fmt.Sprint("service", i), Watchdog: hardly})
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		for j := range number / clients {
			if _, err := c.Mutex(fmt.Sprintf("%s:%d:%d", prefix, i, j)).Lock(ctx); err != nil {
				return nil, err
			}
		}
	}
	number = number / clients * clients
	pattern := prefix + ":*"
	for over := time.Now().Add(answerWithin); ; { // a client begins to listen beside its first lock
		l, err := e.list(ctx, path, pattern)
		if err != nil {
			return nil, err
		}
		if len(l.Locks) == number && len(l.Silent) == 0 {
			break
		}
		if time.Now().After(over) {
			return nil, fmt.Errorf("lockctl lists %d locks of %d, and %d processes are silent", len(l.Locks), number, len(l.Silent))
		}
		if err := pause(ctx, listPause); err != nil {
			return nil, err
		}
	}
	var took, cpu time.Duration
	missing := 0
	for range lists {
		if err := pause(ctx, listPause); err != nil {
			return nil, err
		}
		l, err := e.list(ctx, path, pattern)
		if err != nil {
			return nil, err
		}
		took, cpu, missing = took+l.took, cpu+l.cpu, missing+number-len(l.Locks)
	}
	return metrics{"locks": float64(number), "list": float64(took) / lists, "serverTime": float64(cpu) / lists, "missing": float64(missing)}, nil
}

// sweeping has lockctl find the locks of holders that say nothing, among other keys: a tenth of the keys are such locks.
func sweeping(ctx context.Context, e *env, _ library) (metrics, error) {
	path, remove, err := lockctl(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	prefix, keys := fresh(), sweepShare*e.held
	var commands rueidis.Commands
	for i := range keys {
		key := prefix + ":" + strconv.Itoa(i)
		if i%10 == 0 {
			commands = append(commands, e.rc.B().Hset().Key(key).FieldValue().FieldValue(fmt.Sprintf("11111111-1111-4111-9111-111111111111:%d", i), "1").Build())
		} else {
			commands = append(commands, e.rc.B().Set().Key(key).Value("value").Build())
		}
		if len(commands) == 1000 || i == keys-1 {
			for _, reply := range e.rc.DoMulti(ctx, commands...) {
				if err := reply.Error(); err != nil {
					return nil, err
				}
			}
			commands = nil
		}
	}
	var l seen
	slow, err := e.slow(ctx, func() (err error) {
		l, err = e.list(ctx, path, "-scan", "-rate", strconv.Itoa(100*keys), prefix+":*")
		return err
	})
	if err != nil {
		return nil, err
	}
	if l.Partial {
		return nil, errors.New("the sweep did not come to its end")
	}
	return metrics{
		"keys": float64(keys), "found": float64(len(l.Locks)), "missing": float64((keys+9)/10 - len(l.Locks)),
		"list": float64(l.took), "serverTime": float64(l.cpu), "slowest": float64(slow.slowest), "late": float64(slow.late), "over": float64(slow.over),
	}, nil
}

// watching are the commands of this program that do not belong to a sweep.
var watching = []string{"info", "config", "slowlog"}

// repeats is how often a command that took too long is repeated.
const repeats = 5

// A timed is a command as the server's SLOWLOG has it.
type timed struct {
	words []string
	took  time.Duration
}

// A lateness is what the server's SLOWLOG says about commands.
type lateness struct {
	slowest time.Duration // or the time from which on the server records commands
	late    int           // commands that took too long
	over    int           // those of them that take too long each time
}

// slow returns how long commands took that the server ran during f. The SLOWLOG counts the time in which the machine runs something else, so
// those that took too long are repeated when the machine has nothing else to do.
func (s *server) slow(ctx context.Context, f func() error) (of lateness, err error) {
	restore, err := s.watch(ctx, watchedSlow)
	if err != nil {
		return of, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if err := f(); err != nil {
		return of, err
	}
	commands, err := s.slowlog(ctx)
	if err != nil {
		return of, err
	}
	of.slowest = watchedSlow
	for _, command := range commands {
		if of.slowest = max(of.slowest, command.took); command.took <= tooSlow {
			continue
		}
		of.late++
		least, err := s.least(ctx, command)
		if err != nil {
			return of, err
		}
		if least > tooSlow {
			of.over++
		}
	}
	return of, nil
}

// least returns the shortest time that a command takes the server, of several, or the time that it took if it cannot be repeated.
func (s *server) least(ctx context.Context, command timed) (time.Duration, error) {
	if reads, err := s.reads(ctx, command); err != nil || !reads {
		return command.took, err
	}
	restore, err := s.watch(ctx, 0)
	if err != nil {
		return 0, err
	}
	for range repeats {
		if err := s.rc.Do(ctx, s.rc.B().Arbitrary(command.words...).Build()).Error(); err != nil {
			return 0, errors.Join(err, restore())
		}
	}
	again, err := s.slowlog(ctx)
	least := command.took
	for _, one := range again {
		if slices.Equal(one.words, command.words) {
			least = min(least, one.took)
		}
	}
	return least, errors.Join(err, restore())
}

// reads reports whether the server says that a command changes nothing: as long as the keys stay, it has the same work with one each time.
func (s *server) reads(ctx context.Context, command timed) (bool, error) {
	if len(command.words) == 0 {
		return false, nil
	}
	infos, err := s.rc.Do(ctx, s.rc.B().CommandInfo().CommandName(command.words[0]).Build()).ToArray()
	if err != nil || len(infos) != 1 || infos[0].IsNil() {
		return false, err
	}
	info, err := infos[0].ToArray() // its name, its arity and its flags
	if err != nil || len(info) < 3 {
		return false, err
	}
	flags, err := info[2].AsStrSlice()
	return slices.Contains(flags, "readonly"), err
}

// watch has the SLOWLOG, which is empty then, record the commands that take the server longer than d, or all if d is 0, until restore is called.
func (s *server) watch(ctx context.Context, d time.Duration) (restore func() error, err error) {
	do := func(words ...string) rueidis.RedisResult { return s.rc.Do(ctx, s.rc.B().Arbitrary(words...).Build()) }
	settings := map[string]string{"slowlog-max-len": slowEntries, "slowlog-log-slower-than": strconv.FormatInt(d.Microseconds(), 10)}
	before := map[string]string{}
	restore = func() (err error) {
		for name, value := range before {
			err = errors.Join(err, do("CONFIG", "SET", name, value).Error())
		}
		return err
	}
	for name, value := range settings {
		was, err := do("CONFIG", "GET", name).AsStrMap()
		if err != nil {
			return nil, errors.Join(err, restore())
		}
		before[name] = was[name]
		if err := do("CONFIG", "SET", name, value).Error(); err != nil {
			return nil, errors.Join(err, restore())
		}
	}
	if err := do("SLOWLOG", "RESET").Error(); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// slowlog returns the commands in the SLOWLOG, without those of this program.
func (s *server) slowlog(ctx context.Context) (commands []timed, err error) {
	entries, err := s.rc.Do(ctx, s.rc.B().Arbitrary("SLOWLOG", "GET", slowEntries).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		entry, err := e.ToArray()
		if err != nil || len(entry) < 4 {
			return nil, fmt.Errorf("SLOWLOG GET: an entry of %d values: %w", len(entry), err)
		}
		micros, err := entry[2].AsInt64()
		if err != nil {
			return nil, err
		}
		words, err := entry[3].AsStrSlice()
		if err != nil {
			return nil, err
		}
		if len(words) > 0 && slices.Contains(watching, strings.ToLower(words[0])) {
			continue
		}
		commands = append(commands, timed{words, time.Duration(micros) * time.Microsecond})
	}
	return commands, nil
}

func operatorScenarios() []*scenario {
	fit := func(lib library) bool { return lib.name == lockgen }
	headline := headline{metric: "list", format: duration, lowest: true}
	return []*scenario{{
		id: "S15", title: "`lockctl list` of locks that are held", fit: fit, here: true, run: listing, headline: headline,
		how: "100 clients hold {held} locks, at most 10,000, that nobody waits for. The time is that of the whole command, from its start to its end, and asks " +
			"all clients, which are in one process; Redis CPU is that of the server meanwhile.",
		columns: []column{{"list", "list", duration}, {"Redis CPU", "serverTime", duration}, {"locks", "locks", count}, {"missing", "missing", count}},
		goals: []goal{
			{"at most 300 ms", value("list"), float64(300 * time.Millisecond), false, duration},
			{"at most 30 ms of CPU of the server", value("serverTime"), float64(30 * time.Millisecond), false, duration},
			{"no lock is missing", worst("missing"), 0, false, count},
		},
	}, {
		id: "S16", title: "`lockctl list -scan` of a server with many keys", fit: fit, here: true, run: sweeping, headline: headline,
		how: "The server has 100 times {held} keys. A tenth of them are locks whose holders say nothing, as those of Java programs; the others are strings. " +
			"The sweep is not slowed down. The slowest command, and those above 2 ms, are by the server's SLOWLOG, which counts the time in which the machine lets " +
			"the server wait. So each command above 2 ms is repeated five times afterwards: that each of these takes as long is the server's work.",
		columns: []column{{"sweep", "list", duration}, {"Redis CPU", "serverTime", duration}, {"slowest command", "slowest", duration}, {"commands above 2 ms", "late", count}, {"each time", "over", count},
			{"keys", "keys", count}, {"locks found", "found", count}, {"missing", "missing", count}},
		goals: []goal{
			{"no command takes the server more than 2 ms", worst("over"), 0, false, count},
			{"no lock is missing", worst("missing"), 0, false, count},
		},
	}}
}
