package ctl

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// mostClients is how many clients lockctl opens at most to find one that can subscribe.
const mostClients = 8

// heard has a client that can hear answers. In a cluster the channel of a client is on the server that has its slot, and the slot is that of the
// client's random id. If this server does not answer, heard opens another client, whose channel is perhaps on another server. It reports false if none
// of mostClients clients is better, or two fifths of -timeout are over. To find out about a client takes a tenth of -timeout at most: the client may have to
// connect to the server first.
func (o *options) heard(ctx context.Context) bool {
	if o.rc.Mode() != rueidis.ClientModeCluster {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout*2/5)
	defer cancel()
	for n := 1; !o.answers(ctx); n++ {
		before := o.c
		if n == mostClients || o.open(ctx, lockrt.Options{}) != nil {
			return false
		}
		_ = before.Close()
	}
	return true
}

// answers reports whether the server of the client's channel answers. A key with the name of the channel is in the same slot.
func (o *options) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, o.timeout/10)
	defer cancel()
	rc, key := o.rc, "lockgen_process:"+o.c.ID()
	answered := make(chan bool, 1)
	go func() { // to connect may take longer than ctx lasts
		err := rc.Do(ctx, rc.B().Arbitrary("PTTL").Keys(key).Build()).Error() // which rueidis does not repeat
		reply, said := rueidis.IsRedisErr(err)
		answered <- err == nil || said && !strings.Contains(reply.Error(), "not served") // a slot without a server; a cluster that is down has channels still
	}()
	select {
	case is := <-answered:
		return is
	case <-ctx.Done():
		return false
	}
}
