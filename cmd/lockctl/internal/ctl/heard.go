package ctl

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// mostClients is how many clients lockctl opens at most to find one that can subscribe.
const mostClients = 32

// heard has a client that can hear answers. In a cluster the channel of a client is on the server that has its slot, and the slot is that of the
// client's random id. If this server does not answer, heard opens another client, whose channel is perhaps on another server. It reports false if none
// of mostClients clients is better, or two fifths of -timeout are over. To find out about a server takes a tenth of -timeout at most: the client may have
// to connect to the server first. So no server that is mute is asked twice.
func (o *options) heard(ctx context.Context) bool {
	if o.rc.Mode() != rueidis.ClientModeCluster {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout*2/5)
	defer cancel()
	ask := o.askForChannel()
	slot := ask.Slot()
	if o.answers(ctx, ask) {
		return true
	}
	servers, mute := o.servers(ctx)
	if at := servers[slot]; at != "" {
		mute[at] = true
	}
	for n := 1; n < mostClients && ctx.Err() == nil; n++ {
		before := o.c
		if o.open(ctx, lockrt.Options{}) != nil {
			return false
		}
		_ = before.Close()
		ask = o.askForChannel()
		at := servers[ask.Slot()]
		if !mute[at] && o.answers(ctx, ask) {
			return true
		}
		mute[at] = at != ""
	}
	return false
}

// askForChannel returns a command about a key in the slot of the client's channel, which rueidis does not repeat.
func (o *options) askForChannel() rueidis.Completed {
	return o.rc.B().Arbitrary("PTTL").Keys("lockgen_process:" + o.c.ID()).Build()
}

// servers asks all servers at once. It returns the address of the server of each slot, as one of them says, or nil if none says it; and those that do not
// answer.
func (o *options) servers(ctx context.Context) (of map[uint16]string, mute map[string]bool) {
	mute = map[string]bool{}
	var mu sync.Mutex // guards both
	var asking sync.WaitGroup
	for addr, node := range o.rc.Nodes() {
		asking.Go(func() {
			reply, answered := o.answer(ctx, node, node.B().ClusterSlots().Build())
			mu.Lock()
			defer mu.Unlock()
			if !answered {
				mute[addr] = true
			} else if all, err := reply.ToArray(); err == nil {
				of = serversIn(all)
			}
		})
	}
	asking.Wait()
	return of, mute
}

// serversIn reads the reply to CLUSTER SLOTS. It leaves out servers whose host the cluster does not name: their addresses would be the same.
func serversIn(ranges []rueidis.RedisMessage) map[uint16]string {
	servers := map[uint16]string{}
	for _, of := range ranges {
		entry, err := of.ToArray()
		if err != nil || len(entry) < 3 {
			continue
		}
		first, _ := entry[0].AsInt64()
		last, _ := entry[1].AsInt64()
		master, err := entry[2].ToArray()
		if err != nil || len(master) < 2 {
			continue
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		if host == "" || host == "?" {
			continue
		}
		for slot := first; slot <= last; slot++ {
			servers[uint16(slot)] = net.JoinHostPort(host, strconv.FormatInt(port, 10)) //nolint:gosec // there are 16384 slots
		}
	}
	return servers
}

// answers reports whether the server of ask, which is about a key, answers.
func (o *options) answers(ctx context.Context, ask rueidis.Completed) bool {
	reply, answered := o.answer(ctx, o.rc, ask)
	err := reply.Error()
	said, ok := rueidis.IsRedisErr(err)
	// A slot can be without a server; a cluster that is down has channels still.
	return answered && (err == nil || ok && !strings.Contains(said.Error(), "not served"))
}

// answer returns the result of a request, unless there is none in a tenth of -timeout.
func (o *options) answer(ctx context.Context, rc rueidis.Client, ask rueidis.Completed) (result rueidis.RedisResult, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout/10)
	defer cancel()
	got := make(chan rueidis.RedisResult, 1)
	go func() { got <- rc.Do(ctx, ask) }() // to connect may take longer than ctx lasts
	select {
	case result = <-got:
		return result, true
	case <-ctx.Done():
		return result, false
	}
}
