// Package transporttest has stand-ins for clients of Redis, for tests of packages that send over the transport.
package transporttest

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/redis/rueidis"
)

// Moving is a client of one server that looks like one of a cluster with two masters, of which the first has all slots. When it gets a
// command for which Breaks returns true, its connection breaks, once, and the second master has all slots from then on.
type Moving struct {
	rueidis.Client

	Breaks func(cmd []string) bool // or nil
	Then   error                   // of each script after that, or nil
	moved  bool
}

func (*Moving) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func (c *Moving) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.Breaks != nil && c.Breaks(cmd.Commands()) {
		c.Breaks, c.moved = nil, true
		return rueidis.NewErrorResult(io.EOF)
	}
	if err := c.then(cmd); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.Client.Do(ctx, cmd)
}

// then returns the error of a command for the second master.
func (c *Moving) then(cmd rueidis.Completed) error {
	if c.moved && cmd.Commands()[0] == "EVALSHA" {
		return c.Then
	}
	return nil
}

func (c *Moving) Nodes() map[string]rueidis.Client {
	return map[string]rueidis.Client{"10.0.0.1:1": master{c.Client, c}, "10.0.0.2:1": master{c.Client, c}}
}

// A master is a client of one master of a Moving.
type master struct {
	rueidis.Client

	of *Moving
}

func (m master) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if slices.Equal(cmd.Commands(), []string{"CLUSTER", "SLOTS"}) {
		first := 1
		if m.of.moved {
			first = 2
		}
		cmd = m.B().Eval().Script(fmt.Sprintf("return {{0, 16383, {'10.0.0.%d', 1, 'id'}}}", first)).Numkeys(0).Build()
	}
	if err := m.of.then(cmd); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return m.Client.Do(ctx, cmd)
}
