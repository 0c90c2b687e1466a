package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// An rwTicket is the ticket of one waiter, for one side of a read-write lock.
type rwTicket struct {
	ticket

	own   ticketExtra
	write bool

	// Guarded by mu of the resource:
	under   *grant        // of the same holder, under which it may read ahead of all waiters; or nil
	counted *hub.Listener // while it listens to Redisson's channel, so that it does not count as a Java program
}

// newTicket gives w its ticket, to read or to write, under a grant of the same holder unless that is nil.
func (r *rwResource) newTicket(w *waiter, write bool, under *grant) {
	tk := &rwTicket{write: write}
	tk.own.w, tk.own.of = w, tk
	tk.r, tk.extra, tk.use, w.For.ticket = &r.lineCore, &tk.own, ticketOwn, &tk.ticket
	if under != nil {
		tk.readsUnder(under)
	}
}

// rwTicketOf returns the ticket of w.
func rwTicketOf(w *waiter) *rwTicket { return rwTicketFrom(w.For.ticket) }

func rwTicketFrom(tk *ticket) *rwTicket {
	return tk.extra.of.(*rwTicket) //nolint:forcetypeassert // each ticket to a read-write lock is one
}

// readsUnder has the ticket read under a grant of the same holder, ahead of all waiters.
func (tk *rwTicket) readsUnder(g *grant) { tk.under, tk.use = g, ticketApart }

func (r *rwResource) name(tk *ticket) string { return rwKind(rwTicketFrom(tk).write) }

func (r *rwResource) owner(tk *ticket) string {
	return r.lock.Field(tk.Number, rwTicketFrom(tk).write)
}

func (r *rwResource) acquire(op *acquireOp) protocol.Command {
	tk, w, owner := rwTicketFrom(op.ticket), op.w, r.owner(op.ticket)
	var place protocol.Stay
	if !w.Once() {
		place = protocol.Stay{For: lineFor, Deaf: w.Terms.Polling || tk.Standing && !r.c.attends(r.key)}
	}
	if tk.write {
		tokens := 0
		if w.Terms.Fenced {
			tokens = 1
		}
		return r.lock.Write(owner, place, tokens, w.Terms.TTL)
	}
	under := ""
	if tk.under != nil {
		under = tk.under.Owner()
	}
	return r.lock.Read(owner, under, place, w.Terms.TTL)
}

func (r *rwResource) read(tk *ticket, reply transport.Reply) (protocol.Verdict, error) {
	if rwTicketFrom(tk).write {
		return readNumbers(reply, protocol.ReadRWWrite)
	}
	return readNumber(reply, protocol.ReadRWRead)
}

// readNumber reads a reply of one number.
func readNumber(reply transport.Reply, read func(int64) protocol.Verdict) (protocol.Verdict, error) {
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

// refused has the waiter ask again after half of the time for which Redis keeps the place of the ticket, or sooner.
func (r *rwResource) refused(op *acquireOp, _ time.Time, _ protocol.Verdict, ev engine.Event) engine.Event {
	tk, w := rwTicketFrom(op.ticket), op.ticket.waiter()
	if w != nil && tk.counted == nil && !w.Once() && !w.Terms.Polling {
		tk.counted = r.c.net.Listen(r.lock.WaiterChannel(), func(hub.Event) {})
	}
	if ev.TTL < 0 || ev.TTL > lineFor/2 {
		ev.TTL = lineFor / 2
	}
	return ev
}

// ended records that the waiter listens no more.
func (r *rwResource) ended(tk *ticket) {
	if counted := rwTicketFrom(tk).counted; counted != nil {
		counted.Close()
	}
}

func (r *rwResource) withdrawer() engine.Withdrawer { return r.c.withdrawals.Of(kindWrite, r.key) }
