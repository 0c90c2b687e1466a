package transport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// A full client has no connection until another one is given back.
type full struct {
	rueidis.Client

	back, released chan struct{}
}

func (c full) Dedicate() (rueidis.DedicatedClient, func()) {
	<-c.back
	return &closable{}, func() { close(c.released) }
}

// A caller waits for a connection no longer than the client is open, nor than its time limit, and gives back one that comes later.
func TestLink_Dedicate(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(stop func()) (after time.Duration){
		"it is late":           func(func()) time.Duration { return time.Minute },
		"the client is closed": func(stop func()) time.Duration { time.AfterFunc(time.Second, stop); return time.Second },
	} {
		synctest.Test(t, func(t *testing.T) {
			stopped := make(chan struct{})
			l := &link{cfg: Config{OpTimeout: time.Minute}}
			client := full{back: make(chan struct{}), released: make(chan struct{})}
			begin, after := time.Now(), ends(func() { close(stopped) })
			require.Nil(t, l.dedicate(stopped, client), name)
			require.Equal(t, after, time.Since(begin), name)
			close(client.back)
			<-client.released
		})
	}
}

// A server that fails at once leaves the others their time; one that answers leaves them a little.
func TestLink_FromAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, servers := &fake{}, map[string]rueidis.Client{"fails": nil, "answers": nil, "slow": nil, "late": nil}
		l := &link{rc: knowing{nodes: servers}, cfg: Config{User: u, Stopped: make(chan struct{})}}
		failed := errors.New("it fails")
		ask := func(addr string, _ rueidis.Client) (string, error) {
			<-time.After(map[string]time.Duration{"answers": time.Minute, "slow": time.Minute + time.Second, "late": time.Hour}[addr])
			if addr == "fails" {
				return "", failed
			}
			return addr, nil
		}
		var all []string
		fromAll(l, 2*time.Second, ask, func(answer string, err error) {
			if answer == "" {
				require.ErrorIs(t, err, failed)
			}
			all = append(all, answer)
		})
		require.Equal(t, []string{"", "answers", "slow"}, all)
		u.wg.Wait()
	})
}

// A knowing client knows its servers.
type knowing struct {
	rueidis.Client

	nodes map[string]rueidis.Client
}

func (c knowing) Nodes() map[string]rueidis.Client { return c.nodes }

// That the connection is closed means that the client is only if the client is closing: else there is another master.
func TestBounded_ErrClosing(t *testing.T) {
	t.Parallel()
	closing, u := make(chan struct{}), &fake{}
	net := &Transport{link: link{cfg: Config{User: u, Closing: closing, OpTimeout: time.Minute}}}
	closed := func() error { return Within(context.Background(), net, func() error { return rueidis.ErrClosing }) }
	require.Equal(t, rueidis.ErrClosing, closed())
	close(closing)
	require.Equal(t, failure.ErrClosed, closed())
	u.wg.Wait()
}

// A switching client has another master at times.
type switching struct{ rueidis.Client }

func (switching) Mode() rueidis.ClientMode { return rueidis.ClientModeSentinel }
func (switching) B() rueidis.Builder       { return rueidis.Builder{} }

// An obliging connection answers all commands.
type obliging struct{ sender }

func (obliging) DoMulti(_ context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	return make([]rueidis.RedisResult, len(multi))
}

// A request that fails since the client is closed fails because of a failover, at each of them, but not for long, nor when the client is closed for good.
func TestLink_FailedOver(t *testing.T) {
	t.Parallel()
	renewals := make([]protocol.Command, 2)
	for i := range renewals {
		renewals[i] = protocol.Command{Script: scripts.Renew}
	}
	synctest.Test(t, func(t *testing.T) {
		l := &link{rc: switching{}, cfg: Config{OpTimeout: time.Minute}}
		l.loads.Store(1)
		for _, answered := range []func(){
			func() { l.heard(1, rueidis.RedisResult{}) },
			func() { l.together(t.Context(), obliging{}, renewals) },
			func() {},
		} {
			<-time.After(time.Hour)
			require.True(t, l.failedOver(rueidis.ErrClosing))
			<-time.After(time.Minute - 1)
			require.True(t, l.failedOver(rueidis.ErrClosing))
			<-time.After(1)
			require.False(t, l.failedOver(rueidis.ErrClosing))
			answered()
		}
		l.over.Store(true)
		require.False(t, l.failedOver(rueidis.ErrClosing))
	})
}

// A lagging client answers after as long as it has to wait for a replica.
type lagging struct{ switching }

func (lagging) DoMulti(_ context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	<-time.After(replicaWait)
	return make([]rueidis.RedisResult, len(multi))
}

// TestLink_ReplicasSayNothingOfThePace shows that a client whose grants wait for a replica does not wait longer for other answers.
func TestLink_ReplicasSayNothingOfThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &Transport{link: link{rc: lagging{}, cfg: Config{OpTimeout: time.Minute, Replicas: 1}}, confirming: make(chan struct{}, 1)}
		net.loads.Store(1)
		for range 20 {
			_, short := net.acquire(protocol.Command{Script: scripts.Acquire})
			require.Error(t, short)
		}
		require.Equal(t, leastPatience, net.Patience())
		require.Positive(t, net.spoke.Load())
	})
}
