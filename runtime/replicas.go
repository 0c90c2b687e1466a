package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// replicaWait is how long replicas have to confirm a grant. Redisson's slavesSyncTimeout.
const replicaWait = time.Second

// mostConfirming is how many grants wait for replicas at a time. Each has a connection to itself, since nothing else is
// answered over it meanwhile.
const mostConfirming = 32

// A replicaError says that Redis granted something, but not enough replicas have confirmed that they know of it.
type replicaError struct {
	got, want int
	err       error // why it is not known how many there are, or nil
}

func (e *replicaError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%v: %v", ErrReplicas, e.err)
	}
	return fmt.Sprintf("%v: %d of %d did so within %v", ErrReplicas, e.got, e.want, replicaWait)
}

func (e *replicaError) Is(target error) bool { return target == ErrReplicas }
func (e *replicaError) Unwrap() error        { return e.err }

// unconfirmed reports whether Redis has granted what is not to be taken for granted.
func unconfirmed(err error) bool { return errors.Is(err, ErrReplicas) }

// acquire is run for a script that may grant something. Besides the reply it returns an error if the replicas that
// Options.Replicas asks for have not confirmed what it wrote: then a grant is none.
func (c *Client) acquire(cmd protocol.Command) (reply rueidis.RedisResult, short error) {
	if c.opts.Replicas == 0 {
		return c.run(cmd), nil
	}
	select {
	case c.confirming <- struct{}{}:
		defer func() { <-c.confirming }()
	case <-c.stopped:
		return rueidis.NewErrorResult(rueidis.ErrClosing), nil
	}
	conn := confirmed{c: c}
	reply = c.runOn(&conn, cmd)
	return reply, conn.short
}

// acquireFirst is acquire for a script that grants if grants says so of the first number of its reply; nil if nothing is to
// be granted any more.
func (c *Client) acquireFirst(cmd protocol.Command, grants func(first int64) bool) rueidis.RedisResult {
	if grants == nil {
		return c.run(cmd)
	}
	reply, short := c.acquire(cmd)
	if short == nil || reply.Error() != nil {
		return reply
	}
	first, err := reply.AsInt64()
	if err != nil {
		numbers, _ := reply.AsIntSlice()
		if len(numbers) == 0 {
			return reply // who reads it says what is wrong
		}
		first = numbers[0]
	}
	if grants(first) {
		return rueidis.NewErrorResult(short)
	}
	return reply
}

// isGranted and takesSome are what scripts say first when they grant.
func isGranted(first int64) bool { return first == protocol.Granted }
func takesSome(first int64) bool { return first > 0 }

// confirmed sends commands, and waits, over the same connection, until replicas have what they wrote. rueidis does that over one
// that nobody else uses meanwhile, for which it knows no bound, not even that there is another master.
type confirmed struct {
	c     *Client
	short error // not enough did, or it is not known
}

func (r *confirmed) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

func (r *confirmed) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(replicaWait+r.c.opts.OpTimeout, cancel).Stop()
	defer r.c.lookout.onSwitch(cancel)()
	want := r.c.opts.Replicas
	wait := r.c.rc.B().Wait().Numreplicas(int64(want)).Timeout(replicaWait.Milliseconds()).Build()
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
	cl := r.c.cluster
	if cl == nil {
		return r.c.rc.DoMulti(ctx, commands...)
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
