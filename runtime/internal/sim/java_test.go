package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/spec"
)

// The commands of Redisson's RLock: the contract that this library keeps, without the latch of its newest versions.
const (
	javaLock = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then " +
		"redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end return redis.call('pttl', KEYS[1])"
	javaUnlock = "if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end " +
		"if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end " +
		"redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], ARGV[1]) return 1"
	javaRenew = "if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end return 0"
)

// A javaThread is a thread of a program with Redisson, as far as this library meets it: it asks, listens, asks again, waits for a message or
// for the end of the lease that it was told, and races. It renews what it has each third of a lease. It has a connection of its own.
type javaThread struct {
	p     *process
	id    int
	rng   *rand.Rand
	rc    rueidis.Client
	owner string
	heard chan struct{} // something was said on a channel
}

// javaUUID is what a program with Redisson calls itself. The version in it is not this library's.
const javaUUID = "5f0c1b2a-3d4e-4f60-8123-456789abcdef"

// startJava starts a process with such threads.
func (w *world) startJava(ctx context.Context, workers *sync.WaitGroup) {
	p := w.enlist(ctx)
	p.uuid = javaUUID
	for i := range w.plan.javas {
		j := &javaThread{p: p, id: i, rng: w.random("java", i), owner: fmt.Sprintf("%s:%d", javaUUID, i+1), heard: make(chan struct{}, 1)}
		j.rc = p.reach(w.servers[0])
		p.rcs = append(p.rcs, j.rc)
		workers.Go(j.live)
	}
}

func (j *javaThread) live() {
	w := j.p.w
	defer j.rc.Close()
	g := &worker{p: j.p, id: j.id, rng: j.rng} // thinks and works as others do
	for range w.plan.rounds {
		if !g.pause(g.think()) || time.Since(w.began) > w.plan.horizon {
			return
		}
		j.round(g)
	}
}

// round is one life of a lock.
func (j *javaThread) round(g *worker) {
	w, key := j.p.w, g.key()
	lease := w.plan.watchdog
	call := &call{p: j.p, worker: j.id, keys: []string{key}, kind: "redisson"}
	h := &javaHeld{j: j, key: key}
	if w.plan.kind == fairBesides {
		h.fair = newJavaFair(h)
		call.once, call.wait = h.fair.once, h.fair.wait
	}
	w.watch.called(call)
	if err := h.take(lease); err != nil {
		w.watch.failed(call, j.p.ctx, err)
		return
	}
	over := make(chan struct{})
	renews := make(chan struct{})
	go func() {
		defer close(renews)
		for {
			select {
			case <-over:
				return
			case <-time.After(lease / 3):
			}
			sent := time.Now()
			if said, err := j.eval(javaRenew, []string{key}, millis(lease), j.owner); err == nil && said == "1" {
				h.until.Store(int64(sent.Add(lease).Sub(w.began)))
			}
		}
	}()
	w.watch.granted(call, h)
	g.pause(g.work())
	close(over)
	<-renews
	w.watch.ending(call)
	w.watch.ended(call, h.Unlock(j.p.ctx))
}

// eval has the server run a script, and returns what it says.
func (j *javaThread) eval(script string, keys []string, args ...string) (string, error) {
	cmd := j.rc.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	reply := j.rc.Do(context.Background(), cmd)
	if n, err := reply.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10), nil
	} else if !rueidis.IsRedisNil(err) {
		return "", err
	}
	return "", nil
}

// javaHeld is what a thread has. It is trusted for a lease from before the last request that was answered.
type javaHeld struct {
	j     *javaThread
	key   string
	until atomic.Int64 // since the world began
	fair  *javaFair    // nil if its lock is not a fair one
}

// take asks until it has the lock.
func (h *javaHeld) take(lease time.Duration) error {
	j := h.j
	ctx, stop := context.WithCancel(j.p.ctx)
	defer stop()
	listens, channel := false, protocol.LockChannel(h.key)
	ask := func() (string, error) { return j.eval(javaLock, []string{h.key}, millis(lease), j.owner) }
	least := time.Millisecond
	var enough <-chan time.Time
	if f := h.fair; f != nil {
		ask, least, enough, channel = func() (string, error) { return f.ask(lease) }, leastJavaPause, f.enough(), channel+":"+j.owner
	}
	for ctx.Err() == nil {
		sent := time.Now()
		said, err := ask()
		pause := 200 * time.Millisecond
		switch ttl, _ := strconv.Atoi(said); {
		case err == nil && said == "":
			if h.fair != nil {
				h.fair.gets()
			}
			h.until.Store(int64(sent.Add(lease).Sub(j.p.w.began)))
			return nil
		case h.fair != nil && h.fair.once:
			return lockrt.ErrNotAcquired
		case err != nil:
		case !listens:
			listens = true
			go j.listen(ctx, channel) // and ask again when that is so
		case ttl >= 0:
			pause = max(least, time.Duration(ttl+1)*time.Millisecond)
		}
		select {
		case <-j.heard:
		case <-time.After(pause):
		case <-enough:
			h.fair.leave()
			return lockrt.ErrNotAcquired
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// listen hears what is said on a channel, until ctx is over.
func (j *javaThread) listen(ctx context.Context, channel string) {
	hears := func() {
		select {
		case j.heard <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		conn, _ := j.rc.Dedicate()
		over := conn.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(rueidis.PubSubMessage) { hears() },
			OnSubscription: func(rueidis.PubSubSubscription) { hears() },
		})
		if conn.Do(ctx, conn.B().Subscribe().Channel(channel).Build()).Error() == nil {
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		conn.Close() // not given back: that would wait for the server
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (h *javaHeld) Context() context.Context { return h.j.p.ctx }
func (h *javaHeld) Until() time.Time         { return h.j.p.w.began.Add(time.Duration(h.until.Load())) }
func (h *javaHeld) Err() error {
	if !time.Now().Before(h.Until()) {
		return lockrt.ErrLost
	}
	return nil
}
func (*javaHeld) Extend(context.Context, time.Duration) error { return nil }
func (*javaHeld) Token() int64                                { return 0 }

func (h *javaHeld) Unlock(context.Context) error {
	unlock := func() (string, error) {
		return h.j.eval(javaUnlock, []string{h.key, protocol.LockChannel(h.key)}, "0", millis(h.j.p.w.plan.watchdog), h.j.owner)
	}
	if h.fair != nil {
		unlock = h.fair.unlock
	}
	said, err := unlock()
	if err == nil && said == "" {
		return lockrt.ErrLost
	}
	return err
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// java reports whether an event is a script of a program with Redisson.
func (e *event) java() bool { return e.script == "" && strings.EqualFold(e.cmd[0], "eval") }

// javaDid returns what a script of Redisson's has done to which lock, in the words of the specification; nothing if it changed nothing.
func javaDid(e *event) (key string, did spec.Said) {
	if !e.java() {
		return "", did
	}
	args := e.args()
	lease := func(ms string) time.Duration { n, _ := strconv.Atoi(ms); return time.Duration(n) * time.Millisecond }
	did.Who = spec.Redisson
	switch done := strings.TrimSpace(e.reply); {
	case strings.HasPrefix(done, "-"):
		did.Action = "Fault"
	case e.cmd[1] == javaLock && !strings.HasPrefix(done, ":"):
		did.Action, did.TTL = "JavaTakes", lease(args[0])
	case e.cmd[1] == javaRenew && done == ":1":
		did.Action, did.TTL = "JavaTakes", lease(args[0])
	case e.cmd[1] == javaUnlock && done == ":0":
		did.Action, did.TTL = "JavaTakes", lease(args[1])
	case e.cmd[1] == javaUnlock && done == ":1":
		did.Action = "JavaFrees"
	default:
		return "", did
	}
	return e.keys()[0], did
}

// besides are mutexes that programs with Redisson use as well.
var besides = func() *kind {
	k := *mutex
	k.name = "besides"
	return &k
}()
