package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// acquire sends a command that may grant something. Besides the reply it returns an error if too few replicas have confirmed
// what it wrote: then a grant is none.
func (t *Transport) acquire(cmd protocol.Command) (reply rueidis.RedisResult, short error) {
	if t.cfg.Replicas == 0 {
		return t.run(cmd), nil
	}
	select {
	case t.confirming <- struct{}{}:
		defer func() { <-t.confirming }()
	case <-t.cfg.Stopped:
		return rueidis.NewErrorResult(rueidis.ErrClosing), nil
	}
	conn := confirmed{net: t}
	reply = t.runOn(context.Background(), &conn, cmd)
	return reply, conn.short
}

// RunGrant is [Transport.Run] for a command that grants something if grants says so of the first number of its reply.
// The reply has an error that matches [failure.ErrReplicas] if too few replicas have confirmed the grant. grants is nil for a
// command that cannot grant any more.
func (t *Transport) RunGrant(cmd protocol.Command, grants func(first int64) bool) Reply {
	if grants == nil {
		return t.Run(cmd)
	}
	reply, short := t.acquire(cmd)
	if short == nil || reply.Error() != nil {
		return Reply{reply}
	}
	first, err := reply.AsInt64()
	if err != nil {
		numbers, _ := reply.AsIntSlice()
		if len(numbers) == 0 {
			return Reply{reply} // its reader returns the error
		}
		first = numbers[0]
	}
	if grants(first) {
		return Reply{rueidis.NewErrorResult(short)}
	}
	return Reply{reply}
}

// confirmed sends commands, and waits, over the same connection, until replicas have what they wrote. rueidis does that over
// one that no other request uses meanwhile, for which it knows no bound, not even that there is another master.
type confirmed struct {
	net   *Transport
	short error // too few replicas have confirmed, or their number is not known
}

func (*confirmed) awaitsMore() {} // the replicas

func (r *confirmed) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

func (r *confirmed) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(replicaWait+r.net.cfg.OpTimeout, cancel).Stop()
	defer r.net.watcher.onFailover(cancel)()
	want := r.net.cfg.Replicas
	wait := r.net.rc.B().Wait().Numreplicas(int64(want)).Timeout(replicaWait.Milliseconds()).Build()
	replies := r.send(ctx, append(multi, wait))
	last := len(replies) - 1
	got, err := replies[last].AsInt64()
	r.short = nil
	if err != nil || int(got) < want {
		r.short = &replicaError{int(got), want, err}
	}
	return replies[:last]
}

// send sends commands over one connection, in a cluster to the server that has the slot: rueidis would follow a
// redirection with the one command that needs it, and leave the others where they are.
func (r *confirmed) send(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	cl := r.net.cluster
	if cl == nil {
		return r.net.rc.DoMulti(ctx, commands...)
	}
	for i := range commands {
		commands[i] = commands[i].Pin() // they may be sent again
	}
	script := len(commands) - 2
	for try := 0; ; try++ {
		node, err := cl.owner(commands[script].Slot())
		if err != nil {
			return unsent(len(commands), err)
		}
		replies := node.DoMulti(ctx, commands...)
		if moved := cl.heed(commands[script].Slot(), replies[script].Error()); !moved || try == 3 {
			return replies
		}
	}
}

// unsent returns the results of n commands that were not sent.
func unsent(n int, err error) []rueidis.RedisResult {
	replies := make([]rueidis.RedisResult, n)
	for i := range replies {
		replies[i] = rueidis.NewErrorResult(err)
	}
	return replies
}

// owner returns a client of the server that has a slot, which follows no redirection: what is sent together stays
// together.
func (cl *cluster) owner(slot uint16) (rueidis.Client, error) {
	for range 2 {
		cl.mu.Lock()
		addr := cl.owners.addr(slot)
		cl.mu.Unlock()
		if node := cl.link.rc.Nodes()[addr]; node != nil {
			return node, nil
		}
		cl.ask()
	}
	return nil, fmt.Errorf("it is not known yet which server has slot %d", slot)
}

// heed sends the next request for a slot to the server that a redirection named, and reports whether there was one.
func (cl *cluster) heed(slot uint16, err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		if err != nil {
			cl.link.cfg.User.Go(cl.ask)
		}
		return false
	}
	addr, moved := said.IsMoved()
	if moved {
		cl.note(slot, addr)
		cl.link.cfg.User.Go(cl.ask) // other slots may have moved, too
	}
	return moved
}
