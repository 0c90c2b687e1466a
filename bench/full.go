package main

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// inFull is the experiment of many callers, each with keys that nobody else wants.
const inFull = "floor in full"

// openInFull is [openPromising] with what a lock needs besides, although nobody else wants its key: another goroutine, another process, a slow
// server or a lost key may come at any moment.
//   - The process has an entry for each key that its goroutines want, with a line of them: one at a time asks Redis, first come, first served.
//   - It finds a hold by its owner, which a message would name.
//   - A queue has the holds by the time of their next renewal.
//   - A lease has the context of its caller and a place for its own context, which would end when the lease is lost.
//   - A grant counts only if it is still trusted when the answer comes.
//   - The unlock of one of several callers ends in time if Redis does not answer, and each script whose answer is late can be interrupted.
//   - Calls and grants are counted.
//
// There is nothing else: the process gets no messages, it renews nothing, and no call can be cancelled.
func openInFull(addr string, lease time.Duration) (*client, error) {
	f, err := newFull(addr, lease)
	if err != nil {
		return nil, err
	}
	return &client{lock: f.lock}, nil
}

func newFull(addr string, lease time.Duration) (*fullClient, error) {
	p, err := newPromising(addr, lease)
	if err != nil {
		return nil, err
	}
	p.interrupts = scriptsEnd
	f := &fullClient{promisingClient: p, lease: lease, began: time.Now(), keys: map[string]*fullKey{}}
	go func() {
		for range time.Tick(unlocksEnd / 10) {
			f.endLate()
		}
	}()
	return f, nil
}

// A script is interrupted when it has no answer after scriptsEnd, and an unlock ends after unlocksEnd.
const (
	scriptsEnd = time.Second
	unlocksEnd = 3 * time.Second
)

// A fullClient is a process of such a lock. The mutex of its promisingClient guards the maps and queues.
type fullClient struct {
	*promisingClient
	lease         time.Duration
	began         time.Time
	keys          map[string]*fullKey
	renewals      renewals
	awaited       []*fullHeld // unlocks
	calls, grants atomic.Int64
}

// A fullKey is what a process has of a key.
type fullKey struct {
	line []*fullHeld // the first one asks for the key, or holds it
}

// A fullHeld is one lock that a process holds, or asks for.
type fullHeld struct {
	promisedHeld
	f       *fullClient
	of      *fullKey
	lease   heldOne
	ends    time.Duration // the unlock, at the latest
	awaited int           // its index among the unlocks that are awaited
}

var (
	errLate      = errors.New("no answer in time")
	errUntrusted = errors.New("the grant came too late")
)

func (f *fullClient) lock(key string) (held, error) {
	f.calls.Add(1)
	h := &fullHeld{f: f, promisedHeld: promisedHeld{p: f.promisingClient, key: key, done: outcomes.Get().(chan error)}}
	h.lease.under = context.Background()
	if first := f.join(h); !first {
		if err := <-h.done; err != nil { // the one before has unlocked
			return nil, err
		}
	}
	sent := time.Since(f.began)
	if err := f.take.run(&h.promisedHeld); err != nil {
		f.leave(h)
		return nil, err
	}
	if now := time.Since(f.began); !f.note(h, sent, now) {
		return nil, errors.Join(errUntrusted, h.unlock())
	}
	f.grants.Add(1)
	return h, nil
}

// join puts h at the end of the line of its key, and reports whether it is alone there.
func (f *fullClient) join(h *fullHeld) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name(&h.promisedHeld)
	k := f.keys[h.key]
	if k == nil {
		k = new(fullKey)
		f.keys[h.key] = k
	}
	h.of = k
	k.line = append(k.line, h)
	return len(k.line) == 1
}

// note notes that h was granted by an answer at now, and reports whether it is trusted.
func (f *fullClient) note(h *fullHeld, sent, now time.Duration) bool {
	until := sent + f.lease*9/10
	h.lease.until.Store(int64(until))
	h.lease.next = sent + f.lease/3
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds[h.owner] = &h.promisedHeld
	heap.Push(&f.renewals, &h.lease)
	return now < until
}

// leave removes h from the line, and wakes the next one. The caller does not hold the mutex.
func (f *fullClient) leave(h *fullHeld) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next(h)
}

// next is leave for a caller that holds the mutex.
func (f *fullClient) next(h *fullHeld) {
	k := h.of
	if k.line = slices.Delete(k.line, 0, 1); len(k.line) > 0 {
		k.line[0].done <- nil
		return
	}
	delete(f.keys, h.key)
}

func (h *fullHeld) unlock() error {
	f := h.f
	f.mu.Lock()
	delete(f.holds, h.owner)
	heap.Remove(&f.renewals, int(h.lease.at))
	f.await(h)
	f.mu.Unlock()
	err := f.drop.run(&h.promisedHeld)
	f.mu.Lock()
	inTime := h.awaited >= 0
	if inTime {
		f.forget(h)
	}
	f.next(h)
	f.mu.Unlock()
	if inTime { // otherwise the answer may still come
		outcomes.Put(h.done)
	}
	return err
}

func (h *fullHeld) trusted() bool {
	return h.lease.cause.Load() == nil && int64(time.Since(h.f.began)) < h.lease.until.Load()
}

// await adds h to the unlocks that are awaited. The caller holds the mutex.
func (f *fullClient) await(h *fullHeld) {
	h.ends, h.awaited = time.Since(f.began)+unlocksEnd, len(f.awaited)
	f.awaited = append(f.awaited, h)
}

// forget removes h from the unlocks that are awaited. The caller holds the mutex.
func (f *fullClient) forget(h *fullHeld) {
	last := len(f.awaited) - 1
	f.awaited[h.awaited] = f.awaited[last]
	f.awaited[h.awaited].awaited = h.awaited
	f.awaited[last] = nil
	f.awaited = f.awaited[:last]
	h.awaited = -1
}

// endLate ends the unlocks that have had no answer for too long.
func (f *fullClient) endLate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.began)
	for _, h := range slices.Backward(f.awaited) {
		if now > h.ends {
			f.forget(h)
			h.done <- errLate
		}
	}
}
