package watchdog

import (
	"iter"
	"math"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A queue has leases, in buckets. Of each bucket it knows a time before which nothing is due for its leases: when that has come, the watchdog
// looks at each of them. So a lease takes the memory of a pointer, and a change of a lease, of which nearly all put off what is due, moves
// nothing. Leases are renewed together with those that are nearly due, so a bucket is looked at a few times between two renewals of a lease.
//
// All buckets but the last one are full, and there is at most one empty one behind it.
type queue struct {
	size    int
	dues    []monotonic.Time // of each bucket, a time before which nothing is due
	buckets []*bucket
}

type bucket [bucketSize]*Lease

const bucketSize = 64

// never is when something is due in an empty bucket.
const never = monotonic.Time(math.MaxInt64)

// at returns the lease with an index.
func (q *queue) at(i int) *Lease { return q.buckets[i/bucketSize][i%bucketSize] }

// put gives l an index.
func (q *queue) put(i int, l *Lease) {
	q.buckets[i/bucketSize][i%bucketSize], l.index = l, int32(i)
	q.fix(l)
}

// add adds l.
func (q *queue) add(l *Lease) {
	if q.size == len(q.buckets)*bucketSize {
		q.buckets, q.dues = append(q.buckets, new(bucket)), append(q.dues, never)
	}
	q.put(q.size, l)
	q.size++
}

// remove removes l, in place of which the last lease comes.
func (q *queue) remove(l *Lease) {
	q.size--
	last := q.at(q.size)
	q.buckets[q.size/bucketSize][q.size%bucketSize] = nil
	if last != l {
		q.put(int(l.index), last)
	}
	l.index = -1
	if end := len(q.buckets) - 1; q.size <= (end-1)*bucketSize {
		q.buckets[end] = nil
		q.buckets, q.dues = q.buckets[:end], q.dues[:end]
	}
}

// fix takes note of a change of l.
func (q *queue) fix(l *Lease) {
	if due := &q.dues[l.index/bucketSize]; l.due().Before(*due) {
		*due = l.due()
	}
}

// first returns a time before which nothing is due, or never.
func (q *queue) first() monotonic.Time {
	first := never
	for _, due := range q.dues {
		first = min(first, due)
	}
	return first
}

// all returns the leases. None comes or goes meanwhile.
func (q *queue) all() iter.Seq[*Lease] {
	return func(yield func(l *Lease) bool) {
		for i := range q.size {
			if !yield(q.at(i)) {
				return
			}
		}
	}
}

// serve calls f for the leases of each bucket of which something may be due until the time until, and of which the queue then knows when
// something is due. f may remove the lease, and no other one.
func (q *queue) serve(until monotonic.Time, f func(l *Lease)) {
	for b := 0; b < len(q.dues); b++ {
		if q.dues[b].After(until) {
			continue
		}
		next := never
		for i := b * bucketSize; i < min(q.size, (b+1)*bucketSize); {
			l := q.at(i)
			if f(l); l.index < 0 {
				continue // another one has its place, or there is none
			}
			next = min(next, l.due())
			i++
		}
		q.dues[b] = next // remove keeps an empty bucket behind the others
	}
}
