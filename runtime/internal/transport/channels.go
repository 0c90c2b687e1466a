package transport

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// kinds returns on which kinds of channels a client subscribes to a name.
func (cl *cluster) kinds(name string) (plain, sharded bool) {
	switch own := protocol.ProcessChannel(cl.link.cfg.UUID); {
	case name == own:
		return true, false
	case strings.HasPrefix(name, own):
		return cl.link.cfg.Channels == PlainChannels, cl.link.cfg.Channels != PlainChannels
	}
	return cl.link.cfg.Channels != ShardedChannels, cl.link.cfg.Channels != PlainChannels
}

// HasShardedChannels reports whether the servers of a cluster have sharded channels, as Redisson asks it: by a command that only
// such servers know. It asks all servers at once, and believes the first one that knows. A server that cannot answer now is
// asked again, after a pause for each refusal, since the answer holds for the life of the client: without sharded channels it
// would not hear programs that use them. It fails when no server has answered within a time.
func HasShardedChannels(rc rueidis.Client, within time.Duration, pause func(refused int) time.Duration) (has bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	nodes := rc.Nodes()
	answers := make(chan error)
	asked := func(node rueidis.Client) (again bool) {
		err := node.Do(context.Background(), node.B().Arbitrary("PUBSUB", "SHARDNUMSUB", "0").Build()).Error()
		select {
		case answers <- err:
		case <-ctx.Done():
		}
		return err != nil && Passing(err)
	}
	for _, node := range nodes {
		go func() {
			for refused := 1; asked(node); refused++ {
				select {
				case <-time.After(pause(refused)):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	err = fmt.Errorf("none of %d answers within %v", len(nodes), within)
	for left := len(nodes); left > 0; {
		select {
		case said := <-answers:
			switch {
			case said == nil:
				return true, nil
			case unheardOf(said):
				return false, nil
			case !Passing(said):
				left--
			}
			err = said
		case <-ctx.Done():
			return false, err
		}
	}
	return false, err
}
