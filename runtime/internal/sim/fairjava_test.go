package sim

import (
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// The commands of Redisson's RFairLock, without the latch of its unlock. NOW stands for the argument with the time of the client.
const (
	javaFairEvict = "while true do local head = redis.call('lindex', KEYS[2], 0) if not head then break end " +
		"local till = redis.call('zscore', KEYS[3], head) if not till or tonumber(till) > tonumber(NOW) then break end " +
		"redis.call('zrem', KEYS[3], head) redis.call('lpop', KEYS[2]) end "
	javaFairTakes = "if redis.call('exists', KEYS[1]) == 0 and (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == ARGV[2]) then " +
		"redis.call('lpop', KEYS[2]) redis.call('zrem', KEYS[3], ARGV[2]) " +
		"for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do redis.call('zincrby', KEYS[3], -tonumber(WAIT), other) end " +
		"redis.call('hset', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end " +
		"if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then " +
		"redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end "
	javaFairQueues = "if redis.call('zscore', KEYS[3], ARGV[2]) then return math.max(0, redis.call('pttl', KEYS[1])) end " +
		"local tail, ttl = redis.call('lindex', KEYS[2], -1), nil " +
		"local score = tail and tail ~= ARGV[2] and redis.call('zscore', KEYS[3], tail) " +
		"if score then ttl = tonumber(score) - tonumber(NOW) else ttl = redis.call('pttl', KEYS[1]) end " +
		"if redis.call('zadd', KEYS[3], ttl + tonumber(WAIT) + tonumber(NOW), ARGV[2]) == 1 then redis.call('rpush', KEYS[2], ARGV[2]) end return ttl"
	javaFairCall   = "local head = redis.call('lindex', KEYS[2], 0) if head then redis.call('publish', KEYS[4] .. ':' .. head, ARGV[1]) end return 1"
	javaFairReturn = "if redis.call('exists', KEYS[1]) == 1 then if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end " +
		"if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end " +
		"redis.call('del', KEYS[1]) end "
	javaFairLeave = "local queue = redis.call('lrange', KEYS[1], 0, -1) local behind = false for _, other in ipairs(queue) do " +
		"if behind then redis.call('zincrby', KEYS[2], -tonumber(ARGV[2]), other) end behind = behind or other == ARGV[1] end " +
		"redis.call('zrem', KEYS[2], ARGV[1]) redis.call('lrem', KEYS[1], 0, ARGV[1]) return nil"
)

var (
	javaFairLock   = fairScript("ARGV[4]", "ARGV[3]", javaFairEvict, javaFairTakes, javaFairQueues)
	javaFairTry    = fairScript("ARGV[3]", "ARGV[4]", javaFairEvict, javaFairTakes, "return 1")
	javaFairUnlock = fairScript("ARGV[4]", "", javaFairEvict, javaFairReturn, javaFairCall)
)

// fairScript makes a script of its parts, with the arguments that have the time of the client and the wait of a place.
func fairScript(now, wait string, parts ...string) string {
	return strings.NewReplacer("NOW", now, "WAIT", wait).Replace(strings.Join(parts, ""))
}

// javaFair is a thread's use of a fair lock: a Lock, a tryLock with a time to wait, or a tryLock without one.
type javaFair struct {
	h           *javaHeld
	once        bool
	wait        time.Duration // or 0, to wait for ever
	interrupted bool          // when it has waited for long enough, it keeps its place
}

// leastJavaPause is the time after which a thread asks again that is told to ask at once: it does so without end while the head of the
// queue is away. Redisson does not pause.
const leastJavaPause = 50 * time.Millisecond

func newJavaFair(h *javaHeld) *javaFair {
	f, r, p := &javaFair{h: h}, h.j.rng, h.j.p.w.plan
	switch n := r.IntN(10); {
	case n < 1:
		f.once = true
	case n < 5 && p.javasLeave:
		f.wait = time.Millisecond + time.Duration(r.Int64N(int64(p.watchdog)))
		f.interrupted = p.javasInterrupted && r.IntN(3) == 0
	}
	return f
}

// keys returns the lock, the queue and the times of its waiters.
func (f *javaFair) keys() []string {
	return []string{f.h.key, "redisson_lock_queue:{" + f.h.key + "}", "redisson_lock_timeout:{" + f.h.key + "}"}
}

func (f *javaFair) place() string {
	if f.wait > 0 {
		return millis(f.wait)
	}
	return millis(f.h.j.p.w.plan.options.FairWait)
}

// enough says when the thread has waited for long enough.
func (f *javaFair) enough() <-chan time.Time {
	if f.wait > 0 {
		return time.After(f.wait)
	}
	return nil
}

func javaNow() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

func (f *javaFair) ask(lease time.Duration) (string, error) {
	f.away(false)
	if f.once {
		return f.h.j.eval(javaFairTry, f.keys(), millis(lease), f.h.j.owner, javaNow(), f.place())
	}
	return f.h.j.eval(javaFairLock, f.keys(), millis(lease), f.h.j.owner, f.place(), javaNow())
}

func (f *javaFair) unlock() (string, error) {
	return f.h.j.eval(javaFairUnlock, append(f.keys(), protocol.LockChannel(f.h.key)), "0", millis(f.h.j.p.w.plan.watchdog), f.h.j.owner, javaNow())
}

// leave has the thread leave the queue, unless it is interrupted.
func (f *javaFair) leave() {
	w := f.h.j.p.w
	f.away(true)
	if f.interrupted {
		w.mu.Lock()
		w.injected("thread of Redisson interrupted in the queue", f.h.j.p)
		w.mu.Unlock()
		return
	}
	for range 3 {
		if _, err := f.h.j.eval(javaFairLeave, f.keys()[1:], f.h.j.owner, f.place()); err == nil {
			return
		}
	}
}

// away notes whether the thread does not ask any more for the lock, though it may be in the queue.
func (f *javaFair) away(is bool) {
	w, who := f.h.j.p.w, [2]string{f.h.key, f.h.j.owner}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.served, who)
	if !is {
		delete(w.away, who)
		return
	}
	w.away[who] = true
	w.net.at(time.Now(), func() { // the thread may be the head now, and not any more at the next event
		for _, s := range w.servers {
			w.watch.observe(s, nil)
		}
	})
}

// gets notes that the thread has got the lock, and so does not ask for it any more.
func (f *javaFair) gets() {
	w := f.h.j.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[[2]string{f.h.key, f.h.j.owner}] = w.watch.now()
}

// waitsForAway returns for how long more a fair lock may stay free since the threads of Redisson that are next do not ask any more, and how
// many they are: a thread has left, or the server has forgotten since then that the thread got the lock, and has its place again. When such a thread leaves, no message goes to the next waiter: that one asks when the place was to end or, if it is a
// thread too, when the lease was to end that it waited for.
func (w *world) waitsForAway(m *miniredis.Miniredis, key string, queue []string) (d time.Duration, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	scores, _ := m.SortedSet("redisson_lock_timeout:{" + key + "}")
	for _, owner := range queue {
		who := [2]string{key, owner}
		got, served := w.served[who]
		if !w.away[who] && !(served && w.watch.forgotten && w.watch.forgot > got) {
			break
		}
		n++
		d = max(d, time.Until(time.UnixMilli(int64(scores[owner]))), 3*w.plan.watchdog)
	}
	return d, n
}

// javaFairDid returns what a script of Redisson's has done to a fair lock, in the words of the specification.
func javaFairDid(e *event) (of []string, all []spec.FairSaid) {
	args, keys := e.args(), e.keys()
	number := func(i int) int64 { n, _ := strconv.ParseInt(args[i], 10, 64); return n }
	lease := func(i int) time.Duration { return time.Duration(number(i)) * time.Millisecond }
	key := keys[0]
	did := spec.FairSaid{Hears: func(string) bool { return false }}
	switch e.cmd[1] {
	case javaFairLock:
		did.Action, did.Queued, did.TTL, did.Place, did.Clock = "JavaAsk", true, lease(0), spec.FairPlace{Owner: args[1], Wait: number(2)}, number(3)
	case javaFairTry:
		did.Action, did.TTL, did.Place, did.Clock = "JavaAsk", lease(0), spec.FairPlace{Owner: args[1], Wait: number(3)}, number(2)
	case javaRenew:
		did.Action, did.TTL, did.Place = "JavaRenew", lease(0), spec.FairPlace{Owner: args[1]}
	case javaFairUnlock:
		did.Action, did.TTL, did.Place, did.Clock = "JavaRelease", lease(1), spec.FairPlace{Owner: args[2]}, number(3)
		did.Keeps = strings.TrimSpace(e.reply) == ":0"
	case javaFairLeave:
		key = strings.TrimSuffix(strings.TrimPrefix(keys[0], "redisson_lock_queue:{"), "}")
		did.Action, did.Place = "JavaLeave", spec.FairPlace{Owner: args[0], Wait: number(1)}
	default:
		return nil, nil
	}
	did.Calls = tracetest.FairCalls(key, e.effects)
	return []string{key}, []spec.FairSaid{did}
}

// fairBesides are fair locks that programs with Redisson use as well.
var fairBesides = func() *kind {
	k := *fair
	k.name = "fair besides"
	return &k
}()

// planJavas draws what the threads of Redisson do with fair locks.
func (p *plan) planJavas(intN func(n int) int) {
	p.javasQueue, p.javas = true, 1+intN(3)
	p.options.FairWait = []time.Duration{5 * time.Second, 30 * time.Second}[intN(2)]
	p.javasLeave = intN(3) > 0
	p.javasInterrupted = p.javasLeave && intN(2) == 0
	p.disturbs = p.disturbs || p.javasInterrupted
}
