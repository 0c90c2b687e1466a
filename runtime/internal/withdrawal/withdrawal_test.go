package withdrawal

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A clerk is a host that notes what it is asked.
type clerk struct {
	Host

	mu     sync.Mutex
	start  time.Time
	looks  map[string][]time.Duration
	asked  []uint64
	closed bool
}

func (h *clerk) Spawn(f func()) { go f() }

func (h *clerk) Pause(d time.Duration) bool {
	<-time.After(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed
}

func (h *clerk) Look(tag string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks[tag] = append(h.looks[tag], time.Since(h.start))
}

func (h *clerk) Over(number uint64) bool {
	h.asked = append(h.asked, number)
	return false
}

func newClerk() (*clerk, *Client) {
	h := &clerk{start: time.Now(), looks: map[string][]time.Duration{}}
	return h, &Client{Config: Config{Host: h}}
}

const ms = time.Millisecond

// TestClient_Again has the channels of a client come back, and those of one tag twice in a row.
func TestClient_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := newClerk()
		c.Again("")
		c.Again("tag")
		<-time.After(250 * ms)
		c.Again("tag")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms}, h.looks[""])
		require.Equal(t, []time.Duration{100 * ms, 350 * ms, 550 * ms, 950 * ms, 1750 * ms, 3350 * ms}, h.looks["tag"], "the last one goes on")
		c.echoes.Range(func(tag, _ any) bool { t.Errorf("a turn for %v is left", tag); return true })
	})
}

func TestClient_AgainOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := newClerk()
		h.closed = true
		c.Again("")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Empty(t, h.looks)
	})
}

func TestClient_Ghosts(t *testing.T) {
	t.Parallel()
	h, c := newClerk()
	c.Ghosts("a kind of a later version", "k", []uint64{1})
	require.Empty(t, h.asked)
	c.Ghosts(protocol.AboutFair, "k", []uint64{1, 2})
	require.Equal(t, []uint64{1, 2}, h.asked)
}

func TestClient_PassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newClerk()
		passed := make(chan time.Time, 2)
		start := time.Now()
		c.PassOn(protocol.Freed, func() { passed <- time.Now() })
		c.PassOn(protocol.FreedForNobody, func() { passed <- time.Now() })
		require.Equal(t, protocol.HandOverLease, (<-passed).Sub(start))
		require.Empty(t, passed)
	})
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	for err, fate := range map[error]engine.Fate{nil: 0, errors.New("broke"): engine.FateUnknown, rueidis.ErrClosing: engine.FateClosed} {
		got, same := withdrawn(err)
		require.Equal(t, fate, got, err)
		require.Equal(t, err, same)
	}
}
