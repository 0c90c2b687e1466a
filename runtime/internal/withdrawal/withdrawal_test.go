package withdrawal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
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

// A user is the user of a transport, which does all at once.
type user struct{ transport.User }

func (user) Go(f func())               { f() }
func (user) Detach(f func())           { f() }
func (user) Recheck(func(string) bool) {}

// A breaking client breaks its connection instead of sending a command for which breaks returns true.
type breaking struct {
	rueidis.Client

	breaks func(cmd []string) bool
}

func (c *breaking) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.breaks(cmd.Commands()) {
		return rueidis.NewErrorResult(io.EOF)
	}
	return c.Client.Do(ctx, cmd)
}

// TestWithdraw_OneOfTwoNames has the release of one of the names that a ticket may have fail. The success of the other one is no answer for both.
func TestWithdraw_OneOfTwoNames(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "rw")
	for _, writes := range []bool{false, true} {
		rc := &breaking{Client: redistest.NewClient(t, server.Addr())}
		_, c := newClerk()
		c.Wire = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
		c.Net = transport.New(transport.Config{Client: rc, UUID: c.Wire.UUID, User: user{}, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(c.Net.Unlisten)
		lock := c.Wire.RW(key)
		field := lock.Field(7, writes)
		rc.breaks = func(cmd []string) bool { return slices.Contains(cmd, field) }
		fate, err := c.Of(kindWrite, key).Withdraw([]*engine.Withdrawal{{Number: 7}})
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, engine.FateUnknown, fate)

		rc.breaks = func([]string) bool { return false }
		fate, err = c.Of(kindWrite, key).Withdraw([]*engine.Withdrawal{{Number: 7}})
		require.NoError(t, err)
		require.Zero(t, fate)
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	replied := func(text string) error {
		return server.Client().Do(t.Context(), server.Client().B().Arbitrary("EVAL", "return redis.error_reply(ARGV[1])", "0", text).Build()).Error()
	}
	for _, test := range []struct {
		err  error
		fate engine.Fate
	}{
		{nil, 0},
		{errors.New("broke"), engine.FateUnknown},
		{rueidis.ErrClosing, engine.FateClosed},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 0},
		{replied("NOPERM no right"), engine.FateDenied},
		{replied("TRYAGAIN the slot moves"), engine.FateRefused},
		{replied("WRONGTYPE no lock"), 0},
	} {
		got, same := withdrawn(test.err)
		require.Equal(t, test.fate, got, test.err)
		require.Equal(t, test.err, same)
	}
}
