package engine

import (
	"container/heap"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Alarms make the waiters of a client ask again when it is time. One timer serves them all: a timer for each takes eight times the
// memory.
type Alarms[T any] struct {
	mu    sync.Mutex // guards the rest, and the alarms of waiters
	queue alarmQueue[T]
	timer *time.Timer    // made for the first alarm
	armed monotonic.Time // when the timer fires; 0 if it is not set
}

// A waiter that is to be poked in longAlarm or later is poked up to earlyAlarm sooner, together with another one: one
// script has the requests of both. [NextLook] sets such alarms, in case a message was lost.
const (
	longAlarm  = LookAgainBlind
	earlyAlarm = 3 * longAlarm / 10
)

// Set pokes w in d, and cancels an earlier Set of w. If d is long, w may be poked a bit sooner, together with another waiter, and its
// Reason is to recheck.
func (a *Alarms[T]) Set(w *Waiter[T], d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := monotonic.Now()
	w.alarm, w.early = now.Add(d), d >= longAlarm
	if w.alarmed > 0 {
		heap.Fix(&a.queue, int(w.alarmed)-1)
	} else {
		heap.Push(&a.queue, w)
	}
	if a.armed.IsZero() || w.alarm.Before(a.armed) {
		a.arm(w.alarm, now)
	}
}

// Earliest returns when a waiter is poked at the earliest that is to be poked in d.
func Earliest(d time.Duration) time.Duration {
	if d >= longAlarm {
		return d - earlyAlarm
	}
	return d
}

// Stop cancels Set. After that w gets no poke of the alarms.
func (a *Alarms[T]) Stop(w *Waiter[T]) {
	if w.alarm.IsZero() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.alarmed > 0 {
		heap.Remove(&a.queue, int(w.alarmed)-1)
	}
	w.alarm = 0
}

// Wake pokes all waiters that have an alarm, and cancels none.
func (a *Alarms[T]) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.queue {
		w.Poke()
	}
}

// arm sets the timer. The caller holds a.mu.
func (a *Alarms[T]) arm(at, now monotonic.Time) {
	a.armed = at
	if a.timer == nil {
		a.timer = time.AfterFunc(at.Sub(now), a.come)
	} else {
		a.timer.Reset(at.Sub(now))
	}
}

// come pokes the waiters whose time has come, and with them those that may be poked sooner. It sets the timer for the next waiter,
// and does not cancel it when that waiter has gone.
func (a *Alarms[T]) come() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := monotonic.Now()
	for limit := now; len(a.queue) > 0; {
		w := a.queue[0]
		if w.alarm.After(now) && (!w.early || w.alarm.After(limit)) {
			break
		}
		heap.Pop(&a.queue)
		if w.early {
			w.recheck()
		} else {
			w.Poke()
		}
		limit = now.Add(earlyAlarm)
	}
	a.armed = 0
	if len(a.queue) > 0 {
		a.arm(a.queue[0].alarm, now)
	}
}

// An alarmQueue is a heap of waiters by their alarms.
type alarmQueue[T any] []*Waiter[T]

func (q alarmQueue[T]) Len() int { return len(q) }

func (q alarmQueue[T]) Less(i, j int) bool { return q[i].alarm.Before(q[j].alarm) }

func (q alarmQueue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].alarmed, q[j].alarmed = int32(i)+1, int32(j)+1
}

func (q *alarmQueue[T]) Push(x any) {
	w := x.(*Waiter[T])
	*q = append(*q, w)
	w.alarmed = int32(len(*q))
}

func (q *alarmQueue[T]) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	w.alarmed = 0
	return w
}
