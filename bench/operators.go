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
	slowest, over, err := e.slow(ctx, func() (err error) {
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
		"list": float64(l.took), "serverTime": float64(l.cpu), "slowest": float64(slowest), "over": float64(over),
	}, nil
}

// watching are the commands of this program that do not belong to a sweep.
var watching = []string{"info", "config", "slowlog"}

// slow returns how long the slowest command took that the server ran during f, or the time from which on it records them, and how many took
// too long.
func (s *server) slow(ctx context.Context, f func() error) (slowest time.Duration, over int, err error) {
	do := func(words ...string) rueidis.RedisResult { return s.rc.Do(ctx, s.rc.B().Arbitrary(words...).Build()) }
	settings := map[string]string{"slowlog-max-len": slowEntries, "slowlog-log-slower-than": strconv.FormatInt(watchedSlow.Microseconds(), 10)}
	for name, value := range settings {
		before, err := do("CONFIG", "GET", name).AsStrMap()
		if err != nil {
			return 0, 0, err
		}
		if err := do("CONFIG", "SET", name, value).Error(); err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, do("CONFIG", "SET", name, before[name]).Error()) }()
	}
	if err := do("SLOWLOG", "RESET").Error(); err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	entries, err := do("SLOWLOG", "GET", slowEntries).ToArray()
	if err != nil {
		return 0, 0, err
	}
	slowest = watchedSlow
	for _, e := range entries {
		entry, err := e.ToArray()
		if err != nil || len(entry) < 4 {
			return 0, 0, fmt.Errorf("SLOWLOG GET: an entry of %d values: %w", len(entry), err)
		}
		micros, err := entry[2].AsInt64()
		if err != nil {
			return 0, 0, err
		}
		words, err := entry[3].AsStrSlice()
		if err != nil {
			return 0, 0, err
		}
		if len(words) > 0 && slices.Contains(watching, strings.ToLower(words[0])) {
			continue
		}
		took := time.Duration(micros) * time.Microsecond
		if slowest = max(slowest, took); took > tooSlow {
			over++
		}
	}
	return slowest, over, nil
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
			{"no lock is missing", value("missing"), 0, false, count},
		},
	}, {
		id: "S16", title: "`lockctl list -scan` of a server with many keys", fit: fit, here: true, run: sweeping, headline: headline,
		how: "The server has 100 times {held} keys. A tenth of them are locks whose holders say nothing, as those of Java programs; the others are strings. " +
			"The sweep is not slowed down. The slowest command is by the server's SLOWLOG, which counts the time in which the machine lets the server wait.",
		columns: []column{{"sweep", "list", duration}, {"Redis CPU", "serverTime", duration}, {"slowest command", "slowest", duration}, {"commands above 2 ms", "over", count},
			{"keys", "keys", count}, {"locks found", "found", count}, {"missing", "missing", count}},
		goals: []goal{
			{"no command takes the server more than 2 ms", value("over"), 0, false, count},
			{"no lock is missing", value("missing"), 0, false, count},
		},
	}}
}
