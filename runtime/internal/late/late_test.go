package late_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/late"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestClient goes through all that a rueidis client can do, before and after there is a server.
func TestClient(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true}
	errAway := errors.New("away")
	there := make(chan struct{})
	told := make(chan error, 10)
	c, err := late.New(late.Config{
		Option: option,
		Mode:   rueidis.ClientModeStandalone,
		Connect: func(context.Context) (rueidis.Client, error) {
			select {
			case <-there:
				return rueidis.NewClient(option)
			default:
				return nil, errAway
			}
		},
		Pause:    func(int) time.Duration { return time.Millisecond },
		Patience: time.Minute,
		Report:   func(err error) { told <- err },
	})
	require.NoError(t, err)
	defer c.Close()
	key := redistest.Key(t, "k")
	ctx := t.Context()
	all := map[string]func() error{
		"Do": func() error { return c.Do(ctx, c.B().Set().Key(key).Value("v").Build()).Error() },
		"DoMulti": func() error {
			return c.DoMulti(ctx, c.B().Get().Key(key).Build(), c.B().Ping().Build())[1].Error()
		},
		"DoCache": func() error { return c.DoCache(ctx, c.B().Get().Key(key).Cache(), time.Second).NonRedisError() },
		"DoMultiCache": func() error {
			return c.DoMultiCache(ctx, rueidis.CT(c.B().Get().Key(key).Cache(), time.Second))[0].NonRedisError()
		},
		"DoStream": func() error {
			s := c.DoStream(ctx, c.B().Ping().Build())
			for s.HasNext() {
				if _, err := s.WriteTo(discard{}); err != nil {
					return err
				}
			}
			return ofStream(s.Error())
		},
		"DoMultiStream": func() error {
			s := c.DoMultiStream(ctx, c.B().Ping().Build())
			for s.HasNext() {
				if _, err := s.WriteTo(discard{}); err != nil {
					return err
				}
			}
			return ofStream(s.Error())
		},
		"Dedicated": func() error {
			return c.Dedicated(func(d rueidis.DedicatedClient) error { return d.Do(ctx, d.B().Ping().Build()).Error() })
		},
		"Dedicate": func() error {
			d, release := c.Dedicate()
			defer release()
			return d.Do(ctx, d.B().Ping().Build()).Error()
		},
	}
	for name, do := range all {
		require.ErrorIs(t, do(), errAway, name)
	}
	require.ErrorIs(t, c.Receive(ctx, c.B().Subscribe().Channel(key).Build(), func(rueidis.PubSubMessage) {}), errAway)
	d, _ := c.Dedicate()
	require.Error(t, <-d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}}))
	d.Close()
	require.Len(t, c.Nodes(), 1)
	require.Equal(t, rueidis.ClientModeStandalone, c.Mode())
	require.ErrorIs(t, <-told, errAway)

	close(there)
	require.NoError(t, <-told)
	for _, name := range []string{"Do", "DoMulti", "DoCache", "DoMultiCache", "DoStream", "DoMultiStream", "Dedicated", "Dedicate"} {
		require.NoError(t, all[name](), name)
	}
	require.Contains(t, c.Nodes(), server.Addr())
	require.NoError(t, c.Do(ctx, c.B().Del().Key(key).Build()).Error())
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, c.Receive(ended, c.B().Subscribe().Channel(key).Build(), func(rueidis.PubSubMessage) {}), context.Canceled)
}

// A command that was built while there was no cluster says nothing of where it belongs, and is not sent.
func TestClient_BuiltBeforeThereWasACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	option := rueidis.ClientOption{InitAddress: cluster.Addrs(), DisableCache: true}
	errAway := errors.New("away")
	there, told := make(chan struct{}), make(chan error, 10)
	c, err := late.New(late.Config{
		Option: option,
		Mode:   rueidis.ClientModeCluster,
		Connect: func(context.Context) (rueidis.Client, error) {
			select {
			case <-there:
				return rueidis.NewClient(option)
			default:
				return nil, errAway
			}
		},
		Pause:    func(int) time.Duration { return time.Millisecond },
		Patience: time.Minute,
		Report:   func(err error) { told <- err },
	})
	require.NoError(t, err)
	defer c.Close()
	require.Empty(t, c.Nodes())
	early := c.B().Get().Key("a").Build()
	require.ErrorIs(t, <-told, errAway)
	close(there)
	require.NoError(t, <-told)
	require.ErrorIs(t, c.Do(t.Context(), early).Error(), errAway)
	require.ErrorIs(t, c.DoMulti(t.Context(), c.B().Ping().Build(), c.B().Get().Key("a").Build().Pin(), early)[0].Error(), errAway)
	require.NoError(t, c.Do(t.Context(), c.B().Get().Key("a").Build()).NonRedisError())
	require.Greater(t, len(c.Nodes()), 2)
}

// ofStream returns the error of a stream, which has one when it is over, too.
func ofStream(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestClient_ClosedBeforeItHasTried shows that requests of a closed client do not wait for a connection that nobody makes any more.
func TestClient_ClosedBeforeItHasTried(t *testing.T) {
	t.Parallel()
	connecting := make(chan struct{})
	c, err := late.New(late.Config{
		Option: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, ForceSingleClient: true, DisableCache: true},
		Mode:   rueidis.ClientModeStandalone,
		Connect: func(ctx context.Context) (rueidis.Client, error) {
			close(connecting)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Patience: time.Hour,
	})
	require.NoError(t, err)
	<-connecting
	under := make(chan error, 1)
	go func() { under <- c.Do(context.Background(), c.B().Ping().Build()).Error() }()
	c.Close()
	require.Error(t, <-under)
	require.Error(t, c.Do(context.Background(), c.B().Ping().Build()).Error())
}
