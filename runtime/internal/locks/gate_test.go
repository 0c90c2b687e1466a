package locks

import (
	"context"
	"slices"
	"strconv"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/withdrawal"
	"github.com/lockgen/lockgen/scripts"
)

// A gateLock is a kind of lock that is built as docs/architecture.md says. It has one holder; after an unlock all others ask.
type gateLock struct {
	all *registry[*gateResource]
	key string
}

func (m gateLock) Key() string { return m.key }
func (m gateLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.Lock(ctx, append(slices.Clip(opts), Once)...)
}
func (m gateLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	a := attempt{c: m.all.c.core(), op: "lock", kind: kindMutex, key: m.key} // a kind of its own would be one of package observe
	a.begin(ctx, nil, opts)
	r, err := m.all.enter(m.key, false)
	if err = cmpOr(a.err, err); err != nil {
		return nil, a.failed(err)
	}
	defer r.exit()
	w := newWaiter(ctx, newLease(r.c.core(), a.kind, r.key, ctx), a.cfg)
	w.For.ticket = &ticket{use: ticketOwn, r: &r.lineCore, extra: &ticketExtra{w: w}}
	lease, err := r.c.contend(ctx, r, w, a.cfg, a.waits)
	return a.granted(lease, err)
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

type gateResource struct{ exclusiveCore } // the protocol, and the policy

func newGateResource(c *clientLine, key string) *gateResource {
	r := new(gateResource)
	r.c, r.key, r.kind = c, key, r
	return r
}
func (r *gateResource) name(*ticket) string    { return "gate" }
func (r *gateResource) channel(*waiter) string { return "gate:" + r.key }
func (r *gateResource) withdrawer() engine.Withdrawer {
	return gateWithdrawer{r.c.withdrawals.Of("gate", r.key), r}
}
func (r *gateResource) acquire(op *acquireOp) protocol.Command {
	return protocol.Command{Script: gateEnter, Keys: []string{r.key}, Args: []string{r.owner(op.ticket), strconv.FormatInt(op.terms.TTL.Milliseconds(), 10)}}
}
func (r *gateResource) read(_ *ticket, reply transport.Reply) (protocol.Verdict, error) {
	return readNumber(reply, protocol.ReadRWRead)
}
func (r *gateResource) sendRelease(op *releaseOp, _ bool) {
	op.run(func() (protocol.Outcome, error) {
		return r.c.withdrawals.Release(gateRelease(r.key, r.owner(op.ticket)), op.ticket.OutcomeUnknown)
	})
}

type gateWithdrawer struct {
	withdrawal.Withdrawer
	r *gateResource
}

func (by gateWithdrawer) Withdraw(list []*engine.Withdrawal) (engine.Fate, error) {
	return by.r.c.withdrawals.Each(list, func(owner string) protocol.Command { return gateRelease(by.r.key, owner) }, nil) // Redis names no gates
}
