package policy

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// An rwTicket is the ticket of one waiter, for one side of a read-write lock.
type rwTicket struct {
	resource.Ticket

	own   resource.TicketExtra
	write bool

	// Guarded by Mu of the resource:
	under   *resource.Grant // the grant of the same holder, under which it may read ahead of all waiters; or nil
	counted *hub.Listener   // while it listens to Redisson's channel, so that it does not count as a Java program
}

// NewTicket gives w its ticket, to read or to write, under a grant of the same holder unless that is nil.
func (r *RW) NewTicket(w *resource.Waiter, write bool, under *resource.Grant) {
	tk := &rwTicket{write: write}
	tk.own.Waiter, tk.own.Of = w, tk
	tk.Resource, tk.Extra, tk.Use, w.For.Ticket = &r.LineCore, &tk.own, resource.TicketOwn, &tk.Ticket
	if under != nil {
		tk.readsUnder(under)
	}
}

// rwTicketOf returns the ticket of w.
func rwTicketOf(w *resource.Waiter) *rwTicket { return rwTicketFrom(w.For.Ticket) }

// rwTicketFrom returns the ticket to a read-write lock that tk is a part of.
func rwTicketFrom(tk *resource.Ticket) *rwTicket {
	return tk.Extra.Of.(*rwTicket) //nolint:forcetypeassert // each ticket to a read-write lock is one
}

// readsUnder has the ticket read under a grant of the same holder, ahead of all waiters.
func (tk *rwTicket) readsUnder(g *resource.Grant) { tk.under, tk.Use = g, resource.TicketApart }

// names has the next request of the ticket name g, a grant of the same holder, under which it may read. The caller holds Mu of the resource.
func (tk *rwTicket) names(g *resource.Grant) { tk.under, g.Named = g, g.Named || isWriter(g) }

func (r *RW) Name(tk *resource.Ticket) string { return core.RWKind(rwTicketFrom(tk).write) }

func (r *RW) Owner(tk *resource.Ticket) string {
	return r.Lock.Field(tk.Number, rwTicketFrom(tk).write)
}

func (r *RW) Acquire(op *resource.AcquireOp) protocol.Command {
	tk, w, owner := rwTicketFrom(op.Ticket), op.Waiter, r.Owner(op.Ticket)
	var place protocol.Stay
	if !w.Once() {
		place = protocol.Stay{For: lineFor, Deaf: !r.hears(w) || !r.Client.Attends(r.Key)}
	}
	if tk.write {
		tokens := 0
		if w.Terms.Fenced {
			tokens = 1
		}
		return r.Lock.Write(owner, place, tokens, w.Terms.TTL)
	}
	if by := w.For.Lease.Core().Rare().Owner; by != nil && !slices.Contains(r.Grants(), tk.under) {
		if g := r.heldBy(by); g != nil { // it has unlocked the one before, if there was one, and locked again
			tk.names(g)
		}
	}
	under := ""
	if tk.under != nil {
		under = tk.under.Owner()
	}
	return r.Lock.Read(owner, under, place, w.Terms.TTL)
}

func (r *RW) Read(tk *resource.Ticket, reply transport.Reply) (protocol.Verdict, error) {
	if rwTicketFrom(tk).write {
		return readNumbers(reply, protocol.ReadRWWrite)
	}
	return ReadNumber(reply, protocol.ReadRWRead)
}

// ReadNumber reads a reply of one number.
func ReadNumber(reply transport.Reply, read func(int64) protocol.Verdict) (protocol.Verdict, error) {
	n, err := reply.Int()
	return read(n), err
}

// readNumbers reads a reply of several numbers.
func readNumbers(reply transport.Reply, read func([]int64) (protocol.Verdict, error)) (protocol.Verdict, error) {
	numbers, err := reply.Ints()
	if err != nil {
		return protocol.Verdict{}, err
	}
	return read(numbers)
}

// Refused has the waiter ask again after half of the time for which Redis keeps the place of the ticket, or sooner.
func (r *RW) Refused(op *resource.AcquireOp, _ time.Time, _ protocol.Verdict, ev engine.Event) engine.Event {
	tk, w := rwTicketFrom(op.Ticket), op.Ticket.Waiter()
	if w != nil && tk.counted == nil && !w.Once() && r.hears(w) {
		tk.counted = r.Client.Net.Listen(r.Lock.WaiterChannel(), func(hub.Event) {})
	}
	ev.InLine = ev.InLine || w != nil && r.hears(w)
	if ev.TTL < 0 || ev.TTL > lineFor/2 {
		ev.TTL = lineFor / 2
	}
	return ev
}

// hears reports whether w listens, or its deputy does.
func (r *RW) hears(w *resource.Waiter) bool {
	return !w.Terms.Polling || r.Queue.First == w && r.Queue.Deputy() != nil
}

// Ended has the waiter listen no more.
func (r *RW) Ended(tk *resource.Ticket) {
	if counted := rwTicketFrom(tk).counted; counted != nil {
		counted.Close()
	}
}

func (r *RW) Withdrawer() engine.Withdrawer { return r.Client.Withdrawals.Of(core.KindWrite, r.Key) }
