package lockrt

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// newHub returns the hub through which a client hears of releases.
//
// A connection is a dedicated one, not the shared one of Client.Receive: its loss is
// reported, where Receive subscribes again without a word and so hides that messages were
// missed, and servers that refuse other commands on a subscribed connection do not matter.
func newHub(c *Client) *hub.Hub {
	cfg := hub.Config{
		Dial:    c.subscriber,
		Linger:  time.Second,
		Backoff: []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond},
		OnError: func(err error) {
			c.opts.Logger.Warn("lockgen: subscribing failed; waiters ask by timer until it works", "error", err)
		},
		OnBroken: func(err error) {
			c.opts.Logger.Info("lockgen: subscription connection broke; connecting again", "error", err)
		},
	}
	if c.cluster != nil {
		cfg.Dial, cfg.Lane, cfg.Moved = c.cluster.subscriber, c.cluster.nodeOf, c.cluster.ask
	}
	return hub.New(cfg)
}

func (c *Client) subscriber(_ string, sink hub.Sink) (hub.Conn, <-chan error, error) {
	conn, _ := c.rc.Dedicate()
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { sink.Message(m.Channel, m.Message) },
	})
	return subscriber{conn}, broken, nil
}

// subscriber is a connection that only subscribes.
type subscriber struct{ conn rueidis.DedicatedClient }

func (s subscriber) Subscribe(channels []string) ([]string, error) {
	return nil, s.conn.Do(context.Background(), s.conn.B().Subscribe().Channel(channels...).Build()).Error()
}

// Unsubscribe asks first whether the server is ready. One that is busy with a script refuses UNSUBSCRIBE and the PING
// that rueidis sends behind it; that is one refusal more than rueidis expects, and it ends the program.
func (s subscriber) Unsubscribe(channels []string) error {
	err := s.conn.Do(context.Background(), s.conn.B().Ping().Build()).Error()
	if err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
		return err
	}
	return s.conn.Do(context.Background(), s.conn.B().Unsubscribe().Channel(channels...).Build()).Error()
}

func (s subscriber) Close() { s.conn.Close() }
