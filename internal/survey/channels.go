package survey

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// javaChannels returns the keys of the channels that Redisson's programs subscribe to, including those of this library, and the addresses of the
// servers that do not answer. It asks all servers at once. From the first answer on, the others have the time grace. It fails if no server answers.
func javaChannels(ctx context.Context, rc rueidis.Client, grace time.Duration) (keys, mute []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addr  string
		names []string
		err   error
	}
	nodes := rc.Nodes()
	answers := make(chan answer, 2*len(nodes))
	for addr, node := range nodes {
		for _, command := range []rueidis.Completed{
			node.B().PubsubChannels().Pattern("redisson_*").Build(), node.B().Arbitrary("PUBSUB", "SHARDCHANNELS", "redisson_*").Build(),
		} {
			go func() {
				names, err := node.Do(ctx, command).AsStrSlice()
				answers <- answer{addr, names, err}
			}()
		}
	}
	answered, spoke := false, map[string]int{} // how often each server has
	var late <-chan time.Time                  // when the other servers are
	for range 2 * len(nodes) {
		select {
		case a := <-answers:
			if _, said := rueidis.IsRedisErr(a.err); a.err == nil || said {
				spoke[a.addr]++
			}
			if a.err != nil {
				err = a.err // an older server has no sharded channels
				continue
			}
			if !answered {
				answered, late = true, time.After(grace)
			}
			for _, name := range a.names {
				keys = append(keys, keysOfChannel(name)...)
			}
			continue
		case <-late:
		}
		break
	}
	if !answered {
		return nil, nil, err
	}
	for addr := range nodes {
		if spoke[addr] < 2 {
			mute = append(mute, addr)
		}
	}
	slices.Sort(mute)
	return keys, mute, nil
}

// keysOfChannel returns the keys of a channel of Redisson: of the keys k and {k} it is the same one.
func keysOfChannel(name string) []string {
	for _, prefix := range []string{"redisson_lock__channel:", "redisson_rwlock:"} {
		rest, found := strings.CutPrefix(name, prefix)
		if !found || !strings.Contains(rest, "{") {
			continue
		}
		if inner, braced := strings.CutPrefix(rest, "{"); braced && strings.HasSuffix(inner, "}") && strings.Count(inner, "}") == 1 {
			return []string{inner[:len(inner)-1], rest}
		}
		return []string{rest}
	}
	return nil
}
