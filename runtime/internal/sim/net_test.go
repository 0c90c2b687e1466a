package sim

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"
)

// A network delivers what was sent, in the order of arrival, one after the other, on one goroutine.
type network struct {
	mu    sync.Mutex
	queue deliveries
	sent  uint64
	wake  chan struct{}
	stop  chan struct{}
	done  chan struct{}
}

type delivery struct {
	at  time.Time
	n   uint64 // orders what arrives at one instant
	act func()
}

type deliveries []delivery

func (q deliveries) Len() int { return len(q) }
func (q deliveries) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].n, q[j].n)) < 0
}
func (q deliveries) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *deliveries) Push(x any)   { *q = append(*q, x.(delivery)) }
func (q *deliveries) Pop() any {
	last := (*q)[len(*q)-1]
	*q = slices.Delete(*q, len(*q)-1, len(*q))
	return last
}

func newNetwork() *network {
	n := &network{wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go n.run()
	return n
}

// at has act done at a time, on the goroutine of the network.
func (n *network) at(t time.Time, act func()) {
	n.mu.Lock()
	n.sent++
	heap.Push(&n.queue, delivery{t, n.sent, act})
	first := n.queue[0].n == n.sent
	n.mu.Unlock()
	if first {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

func (n *network) run() {
	defer close(n.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		n.mu.Lock()
		pause := time.Hour
		var act func()
		if len(n.queue) > 0 {
			if pause = time.Until(n.queue[0].at); pause <= 0 {
				act = heap.Pop(&n.queue).(delivery).act
			}
		}
		n.mu.Unlock()
		if act != nil {
			act()
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-n.wake:
		case <-n.stop:
			return
		}
	}
}

func (n *network) close() {
	close(n.stop)
	<-n.done
}
