package locks

import (
	"context"
	"slices"
	"strconv"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/withdrawal"
	"github.com/lockgen/lockgen/scripts"
)

// A gateLock is a kind of lock that is built as docs/architecture.md says. It has one holder; after an unlock all others ask.
type gateLock struct {
	all *resource.Registry[*gateResource]
	key string
}

func (m gateLock) Key() string { return m.key }
func (m gateLock) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.Lock(ctx, append(slices.Clip(opts), leases.Once)...)
}
func (m gateLock) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	a := leases.Attempt{Client: m.all.Client.Core(), Op: "lock", Kind: core.KindMutex, Key: m.key} // a kind of its own would be one of package observe
	a.Begin(ctx, nil, opts)
	r, err := m.all.Enter(m.key, false)
	if err = core.FirstError(a.Err, err); err != nil {
		return nil, a.Failed(err)
	}
	defer r.Exit()
	w := resource.NewWaiter(ctx, leases.New(r.Client.Core(), a.Kind, ctx), &a.Config)
	w.For.Ticket = &resource.Ticket{Use: resource.TicketOwn, Resource: &r.LineCore, Extra: &resource.TicketExtra{Waiter: w}}
	lease, err := r.Client.Contend(ctx, r, w, &a.Config, a.Waits)
	return a.Granted(lease, err)
}

var gateEnter, gateLeave = scripts.New("gate_enter", `local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return ttl end
redis.call('hset', KEYS[1], ARGV[1], '1')
redis.call('pexpire', KEYS[1], ARGV[2])
return -2`), scripts.New("gate_leave", `if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('publish', ARGV[2], 'open')
return 1`)

func gateRelease(key, owner string) protocol.Command {
	return protocol.Command{Script: gateLeave, Keys: []string{key}, Args: []string{owner, "gate:" + key}}
}

type gateResource struct{ resource.Exclusive } // the protocol, and the policy

func newGateResource(c *resource.Client, key string) *gateResource {
	r := new(gateResource)
	r.Client, r.Key, r.Kind = c, key, r
	return r
}
func (r *gateResource) Name(*resource.Ticket) string    { return "gate" }
func (r *gateResource) Channel(*resource.Waiter) string { return "gate:" + r.Key }
func (r *gateResource) Withdrawer() engine.Withdrawer {
	return gateWithdrawer{r.Client.Withdrawals.Of("gate", r.Key), r}
}
func (r *gateResource) Acquire(op *resource.AcquireOp) protocol.Command {
	return protocol.Command{Script: gateEnter, Keys: []string{r.Key}, Args: []string{r.Owner(op.Ticket), strconv.FormatInt(op.Terms.TTL.Milliseconds(), 10)}}
}
func (r *gateResource) Read(_ *resource.Ticket, reply transport.Reply) (protocol.Verdict, error) {
	return policy.ReadNumber(reply, protocol.ReadRWRead)
}
func (r *gateResource) SendRelease(op *resource.ReleaseOp, _ bool) {
	op.Run(func() (protocol.Outcome, bool, error) {
		return r.Client.Withdrawals.Release(gateRelease(r.Key, r.Owner(op.Ticket)), op.Ticket.OutcomeUnknown)
	})
}

type gateWithdrawer struct {
	withdrawal.Withdrawer
	r *gateResource
}

func (by gateWithdrawer) Withdraw(list []*engine.Withdrawal) (engine.Fate, error) {
	return by.r.Client.Withdrawals.Each(list, func(owner string) protocol.Command { return gateRelease(by.r.Key, owner) }, nil) // Redis names no gates
}
