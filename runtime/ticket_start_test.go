package lockrt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// Redisson's waiters have the lock to themselves every other time, and for longer each time that they were too slow.
func TestTicket_StartAfter(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		before time.Duration
		handed bool
		want   time.Duration
	}{
		{0, false, 0}, {0, true, 5 * ms},
		{5 * ms, false, 10 * ms}, {10 * ms, true, 20 * ms}, {20 * ms, false, 40 * ms}, {40 * ms, false, 50 * ms},
		{50 * ms, false, 0}, {50 * ms, true, 5 * ms}, // the longest was not enough: it begins anew
	} {
		tk := &ticket{extra: &ticketExtra{start: c.before}}
		require.Equal(t, c.want, tk.startAfter(c.handed), "after %v, handed over: %t", c.before, c.handed)
	}
}

// A ticket knows the start that Redisson's waiters have from what the server says, and takes no other pause for one.
func TestTicket_HearsOfAStart(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := newResource(c, redistest.Key(t, "k"))
	r.ticket = new(ticket)
	r.ticket.n = 7
	t.Cleanup(func() { r.ticket.extra.recheck.stop() })
	for _, pause := range []time.Duration{20 * time.Millisecond, handOverLease} {
		r.soon(7, pause)
		r.mu.Lock()
		start := r.ticket.extra.start
		r.mu.Unlock()
		require.Equal(t, 20*time.Millisecond, start)
	}
	r.soon(8, 5*time.Millisecond)
	require.Equal(t, 20*time.Millisecond, r.ticket.extra.start, "of another ticket")
}
