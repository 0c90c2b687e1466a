package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fair is a fair lock with Redisson's queue beside it: who has the lock, and who is next. No module has it; the rule is that of
// scripts/fair.lua, and in fairjava.go that of Redisson's scripts. An owner is a name: the 36 characters of its process, a colon, and a
// number. A Fair is immutable.
type Fair struct {
	Owner string            // "" if it is free
	Queue []string          // in the order in which they get the lock
	Until map[string]int64  // when the place of each ends, by the clocks of the clients, in ms
	Notes map[string]string // of those that can be granted the lock by a message: place, lease, tokens, and their keeping
	Last  string            // the owner that was granted it by a message, and has said nothing since; "" if nobody waits
}

// The process of an owner is the start of its name.
const fairProcess = 36

// Bounds of the rule, in fair.lua: the owners that have the lock one after the other, and the time in ms that a place lasts at least when
// those before it leave.
const (
	mostFollow = 64
	leastPlace = 2000
)

// A FairPlace is an owner in the queue, and for how many ms its place lasts beyond those before it.
type FairPlace struct {
	Owner string
	Wait  int64
}

// A fairRun is a script at work.
type fairRun struct {
	Fair
	now   int64                   // by the clock of the client, in ms
	left  time.Duration           // of the lease
	hears func(owner string) bool // messages
	named []string                // the owner with a message that it has the lock, and those that follow it
	drawn int64                   // tokens for them
	calls []string                // the owners with Redisson's message that it is their turn
}

func (l Fair) run(now int64, left time.Duration, hears func(owner string) bool) *fairRun {
	l.Queue, l.Until, l.Notes = slices.Clone(l.Queue), maps.Clone(l.Until), maps.Clone(l.Notes)
	if l.Until == nil {
		l.Until = map[string]int64{}
	}
	if l.Notes == nil {
		l.Notes = map[string]string{}
	}
	return &fairRun{Fair: l, now: now, left: left, hears: hears}
}

func processOf(owner string) string { return owner[:min(fairProcess, len(owner))] }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// readNote reads a note: how long the place lasts, the lease, and the number of tokens. ok is false without one.
func readNote(note string) (wait, lease, tokens int64, ok bool) {
	words := strings.Fields(note)
	if len(words) != 4 {
		return 0, 0, 0, false
	}
	for i, n := range []*int64{&wait, &lease, &tokens} {
		*n, _ = strconv.ParseInt(words[i], 10, 64)
	}
	return wait, lease, tokens, true
}

// leave takes an owner out of the queue.
func (r *fairRun) leave(owner string) {
	r.Queue = slices.DeleteFunc(r.Queue, func(o string) bool { return o == owner })
	delete(r.Until, owner)
	delete(r.Notes, owner)
	if len(r.Queue) == 0 {
		r.Last = ""
	}
}

// evict has those at the head leave whose places are over, and returns the head.
func (r *fairRun) evict(leave func(owner string)) (head string) {
	for len(r.Queue) > 0 {
		head = r.Queue[0]
		if until, has := r.Until[head]; !has || until > r.now {
			return head
		}
		leave(head)
	}
	return ""
}

// forward brings the end of a place forward, but ends none at once.
func (r *fairRun) forward(owner string, by int64) {
	if until, has := r.Until[owner]; has {
		r.Until[owner] = max(until-by, min(until, r.now+leastPlace))
	}
}

// admit has an owner have the lock, which was the head or found nobody before it: all others are next by the duration of its place.
func (r *fairRun) admit(owner string, wait int64) {
	r.leave(owner)
	for o := range r.Until {
		r.forward(o, wait)
	}
}

// quit takes owners out of the queue, wherever they are: those behind each are next by the duration of its place.
func (r *fairRun) quit(some []FairPlace) {
	waits := map[string]int64{}
	for _, p := range some {
		waits[p.Owner] = p.Wait
	}
	gone := int64(0)
	for _, o := range slices.Clone(r.Queue) {
		if wait, leaves := waits[o]; leaves {
			gone += wait
		} else if gone > 0 {
			r.forward(o, gone)
		}
	}
	for _, p := range some {
		r.leave(p.Owner)
	}
	if len(r.Queue) == 0 {
		r.Last = ""
	}
}

// expel takes the waiters of a process out of the queue of a free lock that was granted it last and ran out, unless that process asks.
func (r *fairRun) expel(asker string) {
	last := r.Last
	if r.Last = ""; last == "" || processOf(last) == asker {
		return
	}
	var some []FairPlace
	for _, o := range r.Queue {
		if processOf(o) == processOf(last) {
			wait, _, _, _ := readNote(r.Notes[o])
			some = append(some, FairPlace{o, wait})
		}
	}
	if len(some) > 0 {
		r.quit(some)
	}
}

// trust forgets the last grantee if its process asks while another owner has the lock: the process lives.
func (r *fairRun) trust(asker string) {
	if r.Last != "" && processOf(r.Last) == asker && r.Owner != r.Last {
		r.Last = ""
	}
}

// followers returns those right behind the head that are of its process, and want the same.
func (r *fairRun) followers(head string) (all []string) {
	for _, o := range r.Queue[1:min(len(r.Queue), mostFollow)] {
		if processOf(o) != processOf(head) || r.Notes[o] != r.Notes[head] {
			break
		}
		all = append(all, o)
	}
	return all
}

// pass gives a free lock to the head, if that hears of it.
func (r *fairRun) pass() {
	head := r.evict(r.leave)
	if head == "" {
		return
	}
	wait, lease, tokens, noted := readNote(r.Notes[head])
	if !noted { // Redisson's, or it waits without messages: it asks
		r.calls = append(r.calls, head)
		return
	}
	named := append([]string{head}, r.followers(head)...)
	r.drawn += tokens * int64(len(named))
	if r.hears(head) {
		r.named, r.Owner, r.left = named, head, milliseconds(lease)
		if r.admit(head, wait); len(r.Queue) > 0 {
			r.Last = head
		}
		return
	}
	r.calls = append(r.calls, head)
	over := r.now + lease // the time of its lease, since it may be dead, and with it the others of its process
	if until, has := r.Until[head]; has {
		over = min(over, until)
	}
	for o := range r.Notes {
		if until, has := r.Until[o]; has && processOf(o) == processOf(head) {
			r.Until[o] = min(until, over)
		}
	}
}

// ask is fair_acquire.lua. A place is where it waits, if it does: queued says so.
func (r *fairRun) ask(p FairPlace, queued bool, note string, lease time.Duration, next int64) (granted bool) {
	if r.Owner == p.Owner {
		r.Last = ""
		r.left = max(r.left, lease)
		return true
	}
	if r.Owner == "" {
		r.expel(processOf(p.Owner))
	} else {
		r.trust(processOf(p.Owner))
	}
	if head := r.evict(r.leave); r.Owner == "" && (head == "" || head == p.Owner) {
		r.Owner, r.left = p.Owner, lease
		r.admit(p.Owner, p.Wait)
		return true
	}
	if queued {
		r.stand(p, note)
	}
	if r.Owner == "" {
		r.pass()
	}
	if r.Owner == "" && len(r.Queue) > 0 && next > 0 {
		head := r.Queue[0]
		until, has := r.Until[head]
		if _, noted := r.Notes[head]; has && !noted { // the thread that is next may be dead
			r.Until[head] = min(until, r.now+max(next, leastPlace))
		}
	}
	return false
}

// stand has an owner wait: at the end, for as long as its place lasts beyond the one before it; or where it stands already.
func (r *fairRun) stand(p FairPlace, note string) {
	last := r.now
	if r.Owner != "" {
		last += r.left.Milliseconds()
	}
	if i := slices.Index(r.Queue, p.Owner); i >= 0 {
		r.Until[p.Owner] = max(r.Until[p.Owner], last+p.Wait*int64(i+1))
	} else {
		if n := len(r.Queue); n > 0 {
			if until, has := r.Until[r.Queue[n-1]]; has {
				last = until
			}
		}
		r.Queue = append(r.Queue, p.Owner)
		r.Until[p.Owner] = last + p.Wait
	}
	if note != "" {
		r.Notes[p.Owner] = note
	}
}

// release is fair_release.lua: of the lock and of the places of those that had it after the owner, or of a place alone.
func (r *fairRun) release(p FairPlace, after []FairPlace) {
	had := r.Owner == p.Owner
	if had {
		r.Owner, r.Last = "", ""
	} else {
		r.quit([]FairPlace{p})
		if slices.ContainsFunc(after, func(x FairPlace) bool { return x.Owner == r.Owner }) {
			r.Owner = ""
		}
		if r.Owner == "" {
			r.expel(processOf(p.Owner))
		} else {
			r.trust(processOf(p.Owner))
		}
	}
	if len(after) > 0 {
		r.quit(after)
	}
	if r.Owner == "" {
		r.pass()
	}
}

// withdraw is fair_leave.lua.
func (r *fairRun) withdraw(asker string, some []FairPlace) {
	if slices.ContainsFunc(some, func(x FairPlace) bool { return x.Owner == r.Owner }) {
		r.Owner = ""
		r.quit(some)
		r.Last = ""
	} else if len(some) > 0 {
		r.quit(some)
	}
	if r.Owner == "" {
		r.expel(asker)
		r.pass()
	} else {
		r.trust(asker)
	}
}

// force is fair_force_unlock.lua, from any owner or from those named alone.
func (r *fairRun) force(from []string) {
	if r.Owner == "" || len(from) > 0 && !slices.Contains(from, r.Owner) {
		return
	}
	r.Owner, r.Last = "", ""
	r.pass()
}

// equal reports whether two locks are the same, with times that differ by no more than slack ms.
func (l Fair) equal(o Fair, slack int64) bool {
	if l.Owner != o.Owner || l.Last != o.Last || !slices.Equal(l.Queue, o.Queue) || !maps.Equal(l.Notes, o.Notes) || len(l.Until) != len(o.Until) {
		return false
	}
	for owner, until := range l.Until {
		if other, has := o.Until[owner]; !has || until-other > slack || other-until > slack {
			return false
		}
	}
	return true
}

// places lists the queue, with the time of each place after now.
func (l Fair) places(now int64) string {
	var all []string
	for _, o := range l.Queue {
		place := o + " for " + strconv.FormatInt(l.Until[o]-now, 10) + " ms"
		if l.Notes[o] != "" {
			place += ", noted " + l.Notes[o]
		}
		all = append(all, place)
	}
	return "[" + strings.Join(all, ", ") + "]"
}
