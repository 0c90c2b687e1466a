package transport

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A mute connection is found out by time, a second or more later. Until then others may wait for a key without a
// holder: it was granted, or is being released, by a request whose answer does not come. A command that may be sent
// twice is sent over another connection long before.

// MostBeside is how often a command is sent at most, the first time included, each time over another connection.
const MostBeside = 3

// mostMute is MostBeside while the server answers other commands: a connection that becomes mute takes all requests that are sent over it until that is
// found out.
const mostMute = 8

// RunInTime sends a command by first, or by [Transport.Run] if that is nil, and also beside it each time that the answer has
// not come for a while, and at once when its connection ends before that: [MostBeside] times in all, or more often while the server
// answers other commands. It returns the first answer, or how the last try failed, of those that may have run if there are some, and
// whether the command may have run more than once. Once it has returned, nothing waits for the other answers. [Transport.Settled] says when
// those have come that a client has to wait for when it is closed.
func (t *Transport) RunInTime(first func(protocol.Command) Reply, cmd protocol.Command) (reply Reply, again bool) {
	x := t.timely(cmd)
	x.first = first
	return x.run()
}

// Ask is RunInTime for a command that changes nothing.
func (t *Transport) Ask(cmd protocol.Command) Reply {
	reply, _ := t.RunInTime(nil, cmd)
	return reply
}

// RunGrantInTime is RunInTime for a command that grants something, see [Transport.RunGrant]. Where replicas have to confirm a
// grant, which takes as long as they need, the command is sent once, unless the client of a cluster sends it again by itself.
func (t *Transport) RunGrantInTime(cmd protocol.Command, grants func(first int64) bool) (reply Reply, again bool) {
	if t.cfg.Replicas > 0 {
		resends := t.Resent()
		reply = t.RunGrant(cmd, grants)
		return reply, t.Resent() != resends
	}
	x := t.timely(cmd)
	x.takes = true
	return x.run()
}

// RunRoundInTime is RunGrantInTime for a command of a [protocol.Round], of which Redis keeps by its number what it took. Redis
// keeps that it took nothing only of one that says that it was sent before: once that was sent, or the client of a cluster has sent the
// first one again by itself, the first command may still come, and that it took nothing answers nothing. Nor does an error that is true
// of one of the commands alone, such as the reply of a busy server, or a connection that the server refuses: the others may still take
// something, or have taken it.
func (t *Transport) RunRoundInTime(cmd protocol.Command, grants func(first int64) bool) Reply {
	if t.cfg.Replicas > 0 {
		resends := t.Resent()
		reply := t.RunGrant(cmd, grants)
		if t.Resent() != resends && (refuses(reply.Err()) || !tookSome(reply)) {
			return Reply{rueidis.NewErrorResult(ErrNoAnswer)}
		}
		return reply
	}
	x := t.timely(cmd)
	x.round = true
	reply, _ := x.run()
	return reply
}

// A successor goes on in place of a goroutine that has sent a command whose answer is late.
type successor interface {
	// again returns the command for another connection.
	again() protocol.Command
	// answered gets the first answer, or how the last try failed.
	answered(reply Reply)
}

// runOrLeave is [Transport.Run] for a goroutine of [User.Go]. It returns when its connection answers or fails. If that took too long, another goroutine
// has sent the command again meanwhile: then left is true, by gets the first answer, and the caller ends. takes says that the command may lock.
func (t *Transport) runOrLeave(cmd protocol.Command, takes bool, by successor) (reply Reply, left bool) {
	l, x := &t.lateness, t.timely(cmd)
	x.by, x.way, x.takes = by, t.way(cmd), takes
	l.add(x)
	reply = Reply{t.runBy(x.way, cmd)}
	l.mu.Lock()
	if left = x.sent > 1; !left {
		l.remove(x)
	}
	l.mu.Unlock()
	if left {
		if x.way == (way{}) {
			t.traffic.stuck.Add(-1)
		}
		x.comes(timelyReply{Reply: reply, first: true})
		t.cfg.User.Return()
		return Reply{}, true
	}
	x.recycle()
	return reply, false
}

// A timely command is sent until it is answered in time.
type timely struct {
	net   *Transport
	cmd   protocol.Command
	first func(protocol.Command) Reply
	by    successor       // of the goroutine that has sent it first; nil if that one waits for the other answers, too, with the same command
	waits bool            // that one waits all the same
	round bool            // it is a round, and says so when it is sent again
	takes bool            // it may lock, each time that it is done
	way   way             // of the first command, unless there is a first
	until <-chan struct{} // see [Transport.RunUntil]; nil for ever

	replies chan timelyReply // has room for all
	begin   func()           // sends the command for the first time

	// Guarded by lateness.mu.
	sent    int            // times
	at      monotonic.Time // of the last one
	i       int            // its place among those that are under way
	resends uint64         // of the transport, when it was sent first
	stood   bool           // at was moved since then, because this process stood still
	over    bool           // the first command is answered, or has failed
	open    int            // commands that were sent and have neither an answer nor failed
	left    bool           // the call has returned, and the answers to those come too late for it
	on      *string        // the server whose shared connection has not answered that for too long, or nil
}

type timelyReply struct {
	Reply

	first bool // to the first command
	late  bool // there is none: it is time to send the command once more
}

var timelies = sync.Pool{New: func() any {
	x := &timely{replies: make(chan timelyReply, 2*mostMute)}
	x.begin = func() {
		var reply Reply
		if x.first != nil {
			reply = x.first(x.cmd)
		} else {
			reply = Reply{x.net.runBy(x.way, x.cmd)}
		}
		x.comes(timelyReply{Reply: reply, first: true})
	}
	return x
}}

func (t *Transport) timely(cmd protocol.Command) *timely {
	x := timelies.Get().(*timely)
	x.net, x.cmd = t, cmd
	return x
}

// recycle is called when all replies have been received.
func (x *timely) recycle() {
	*x = timely{replies: x.replies, begin: x.begin}
	timelies.Put(x)
}

// run sends the command, and returns the answer.
func (x *timely) run() (reply Reply, again bool) {
	if x.first == nil {
		x.way = x.net.way(x.cmd)
	}
	x.net.lateness.add(x)
	x.net.cfg.User.Detach(x.begin)
	return x.await()
}

// succeed goes on in place of the goroutine that has sent the command first.
func (x *timely) succeed() {
	by := x.by
	x.sendBeside()
	reply, _ := x.await()
	by.answered(reply)
}

// sendBeside sends the command of a successor once more.
func (x *timely) sendBeside() {
	x.send(x.by.again(), x.runBeside)
}

// runBeside is [Transport.RunBeside], unless the call returns while a connection is being made: then nobody needs the command any more.
func (x *timely) runBeside(cmd protocol.Command) Reply { return x.net.runBesideIf(x.needs, cmd) }

// needs reports whether the call waits for an answer.
func (x *timely) needs() bool {
	x.net.lateness.mu.Lock()
	defer x.net.lateness.mu.Unlock()
	return !x.left
}

// await returns the answer to a command that was sent.
func (x *timely) await() (reply Reply, again bool) {
	l := &x.net.lateness
	var nothing bool // answers the first command
	var doubt Reply  // the failure of a command that may have run, or the zero Reply
	for answered := 0; ; {
		got := <-x.replies
		if got.late {
			x.sendBeside()
			continue
		}
		answered++
		err := got.result.NonRedisError()
		l.mu.Lock()
		sent := x.sent
		resent := x.net.Resent() != x.resends
		again = sent > 1 || resent
		nothing = nothing || got.first && err == nil && again && x.round && !tookSome(got.Reply)
		last := answered == sent
		if Unknown(err) {
			doubt = got.Reply
		}
		switch {
		case err == nil && !(nothing && got.first), last && (sent >= MostBeside || nothing || closed(x.until) || !errors.Is(err, rueidis.ErrClosing) && !Cut(err)):
			l.remove(x)
			if x.left = true; x.takes {
				l.strays.add(x.open)
			}
			l.mu.Unlock()
			open := x.round && again && refuses(got.Err()) // that is no word about the other commands
			switch reply = got.Reply; {
			case open, nothing && (err != nil || got.first):
				reply = Reply{rueidis.NewErrorResult(ErrNoAnswer)} // of those that may still take something
			case err != nil && !errors.Is(err, rueidis.ErrClosing) && doubt.result.NonRedisError() != nil: // the last one may not have been sent
				reply = doubt
			case err != nil && last && !Unknown(err) && doubt.result.NonRedisError() == nil && !nothing:
				again = resent // none was sent, or the client of a cluster has sent one that broke before the last one
			}
			if last {
				x.recycle()
			}
			return reply, again
		case last: // the connection broke, or was closed with the client, which has another one as long as this runs
			l.sentAgain(x)
			l.mu.Unlock()
			cmd := x.cmd
			if x.by != nil {
				cmd = x.by.again()
			}
			x.send(cmd, x.net.Run)
		default:
			l.mu.Unlock()
		}
	}
}

// refuses reports whether err says that Redis has not run the command that it is about.
func refuses(err error) bool { return err != nil && !Unknown(err) && !Unconfirmed(err) }

// send sends the command once more, unless the call has returned.
func (x *timely) send(cmd protocol.Command, how func(protocol.Command) Reply) {
	l := &x.net.lateness
	l.mu.Lock()
	left := x.left
	if !left {
		x.open++
	}
	l.mu.Unlock()
	if left {
		return
	}
	if x.round {
		cmd = protocol.SentAgain(cmd)
	}
	x.net.cfg.User.Detach(func() { x.comes(timelyReply{Reply: how(cmd)}) })
}

// comes hands on an answer, or how a command failed, to the call, which uses x again when it has all of them.
func (x *timely) comes(got timelyReply) {
	l := &x.net.lateness
	l.mu.Lock()
	defer l.mu.Unlock()
	if got.first {
		l.answered(x)
	}
	if x.open--; x.left {
		if x.takes {
			l.strays.add(-1)
		}
		return
	}
	x.replies <- got // which has room
}

// lateness looks at what is under way from time to time, and has sent again what is late. The zero value is ready.
type lateness struct {
	mu    sync.Mutex
	all   []*timely
	timer *time.Timer
	looks bool           // the timer is set
	due   monotonic.Time // when it comes, if it is set

	mute     map[string]int // by servers: requests without an answer for too long over the shared connection
	anywhere atomic.Bool    // there is one

	strays strays
	again  atomic.Uint64 // how many commands were sent again so far
}

// sentAgain records that the command of x is sent again now. The caller holds l.mu.
func (l *lateness) sentAgain(x *timely) {
	x.sent, x.at = x.sent+1, monotonic.Now()
	l.again.Add(1)
}

// lookLate is how often what is under way is looked at: one timer for all costs less than one for each.
const lookLate = leastPatience / 10

func (l *lateness) add(x *timely) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.sent, x.open, x.at, x.i, x.resends = 1, 1, monotonic.Now(), len(l.all), x.net.Resent()
	l.all = append(l.all, x)
	if l.looks {
		return
	}
	l.looks, l.due = true, x.at.Add(lookLate)
	if l.timer == nil {
		l.timer = time.AfterFunc(lookLate, x.net.sendLate)
	} else {
		l.timer.Reset(lookLate)
	}
}

// stoodStill takes the time for which this process stood still before the timer came, if it did, for none in which an answer could come: it may have
// come, and nobody has read it. So a process that was stopped does not send everything again. Each command is given that once: a machine whose
// timers are always late sends again what has no answer, too. The caller holds l.mu.
func (l *lateness) stoodStill() {
	if !monotonic.StoodStill(l.due.Std()) {
		return
	}
	now := monotonic.Now()
	for _, x := range l.all {
		if !x.stood {
			x.at, x.stood = min(now, x.at.Add(now.Sub(l.due))), true
		}
	}
}

// remove is called with l.mu held.
func (l *lateness) remove(x *timely) {
	last := len(l.all) - 1
	l.all[x.i] = l.all[last]
	l.all[x.i].i = x.i
	l.all[last] = nil
	l.all = l.all[:last]
}

// overdue reports whether the shared connection to the server of a command has a request whose answer is late. Its answers come in
// order, so that of the command would come later.
func (t *Transport) overdue(cmd protocol.Command) bool {
	l := &t.lateness
	if !l.anywhere.Load() {
		return false
	}
	server := t.server(cmd)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute[server] > 0
}

// avoid has what comes later not wait behind the first command of x, whose answer is late, if that went over a shared connection.
// The caller holds l.mu.
func (l *lateness) avoid(x *timely) {
	if x.over || x.first != nil || x.way != (way{}) {
		return
	}
	if l.mute == nil {
		l.mute = map[string]int{}
	}
	server := x.net.server(x.cmd)
	l.mute[server]++
	x.on = &server
	l.anywhere.Store(true)
}

// answered ends avoid: the first command of x is answered, or has failed. The caller holds l.mu.
func (l *lateness) answered(x *timely) {
	x.over = true
	if x.on == nil {
		return
	}
	if l.mute[*x.on]--; l.mute[*x.on] == 0 {
		delete(l.mute, *x.on)
		l.anywhere.Store(len(l.mute) > 0)
	}
	x.on = nil
}

// sendLate sends again what is late, or has it sent by the successor of the goroutine that has sent it first.
func (t *Transport) sendLate() {
	l := &t.lateness
	patience := t.Patience()
	var late, left []*timely // none of them is used again before all answers have come
	l.mu.Lock()
	l.stoodStill()
	if l.looks = len(l.all) > 0; l.looks {
		l.due = monotonic.Now().Add(lookLate)
		l.timer.Reset(lookLate)
	}
	answers := t.cluster == nil // and which server of a cluster has answered is not known
	for _, x := range l.all {
		if monotonic.Since(x.at) <= patience || x.sent >= MostBeside && !(answers && x.sent < mostMute && monotonic.Time(t.spoke.Load()).After(x.at)) {
			continue
		}
		if closed(x.until) {
			if x.sent == 1 && x.on == nil { // the connection may be mute for others, too
				l.avoid(x)
			}
			continue
		}
		l.sentAgain(x)
		if x.sent == 2 {
			l.avoid(x)
		}
		switch {
		case x.by == nil:
			late = append(late, x)
		case x.sent == 2 && !x.waits:
			left = append(left, x)
			if x.way == (way{}) {
				t.traffic.stuck.Add(1) // before the answer takes it back
			}
		default:
			x.replies <- timelyReply{late: true}
		}
	}
	l.mu.Unlock()
	for _, x := range late {
		x.send(x.cmd, x.runBeside)
	}
	for _, x := range left {
		t.cfg.User.Go(x.succeed)
		t.cfg.User.Leave()
	}
}
