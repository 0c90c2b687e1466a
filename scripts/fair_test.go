package scripts_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockgen/lockgen/scripts"
)

const (
	epoch    = int64(1_700_000_000_000) // the time of the clients, in ms
	fairWait = int64(5000)              // ms; how long a place lasts
	heirs    = int64(2000)              // ms; the lease of an owner that is granted the lock at once
)

// A fairLock is a fair lock with its companion keys. The owners hears and hears2 are of a process that listens, deaf
// and deaf2 of one that does not listen, and theirs is a Java thread.
type fairLock struct {
	*scene
	hears, hears2, hears3, deaf, deaf2 string
	told                               chan string // messages to the process that listens
}

func newFairLock(s *scene) *fairLock {
	listens := newProcess()
	silent := newProcess()
	l := &fairLock{scene: s, hears: listens + ":1", hears2: listens + ":2", hears3: listens + ":5", deaf: silent + ":3", deaf2: silent + ":4"}
	s.channel += ":" + theirs
	s.listen()
	l.told = l.hear(listens)
	return l
}

func newProcess() string { return fmt.Sprintf("%08x-0d1f-8a55-8f0e-3c2b1a0d9e8f", rand.Uint32()) }

// hear has a process listen, and returns its messages.
func (l *fairLock) hear(process string) chan string {
	told := make(chan string, 64)
	conn, release := l.c.Dedicate()
	l.t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		said, _, _ := strings.Cut(m.Message, " of fair "+l.key)
		told <- said
	}})
	require.NoError(l.t, conn.Do(l.t.Context(), l.c.B().Subscribe().Channel("lockgen_process:"+process).Build()).Error())
	return told
}

func (l *fairLock) queue() string { return "redisson_lock_queue:{" + l.key + "}" }
func (l *fairLock) times() string { return "redisson_lock_timeout:{" + l.key + "}" }
func (l *fairLock) notes() string { return "lockgen_fair:{" + l.key + "}" }

func (l *fairLock) keys() []string {
	return []string{l.key, l.queue(), l.times(), l.notes(), "redisson_lock__channel:{" + l.key + "}", l.counter()}
}

func (l *fairLock) note(owner string, wait int64) string {
	if owner == theirs {
		return ""
	}
	return fmt.Sprintf("%d %d 0 0", wait, heirs)
}

func (l *fairLock) ask(owner, line string, wait, now int64, tokens string) ([]int64, error) {
	return l.eval(scripts.FairAcquire, l.keys(), "600000", owner, line, strconv.FormatInt(wait, 10), strconv.FormatInt(now, 10),
		plain, l.note(owner, wait), tokens, "60000", strconv.FormatInt(fairWait, 10)).AsIntSlice()
}

// want has owners ask for the lock, each behind the one before. The lease of the holder does not end meanwhile.
func (l *fairLock) want(owners ...string) {
	l.t.Helper()
	for _, owner := range owners {
		_, err := l.ask(owner, "1", fairWait, epoch, "0")
		require.NoError(l.t, err)
		l.forever()
	}
}

func (l *fairLock) giveBack(owner string, wait, now int64, after ...string) (int64, error) {
	args := []string{owner, strconv.FormatInt(wait, 10), strconv.FormatInt(now, 10), plain}
	for _, number := range after {
		args = append(args, number, strconv.FormatInt(wait, 10))
	}
	return l.eval(scripts.FairRelease, l.keys(), args...).AsInt64()
}

// leave withdraws owners of the process that listens.
func (l *fairLock) leave(now int64, waits map[string]int64, owners ...string) (int64, error) {
	args := []string{l.hears[:36], strconv.FormatInt(now, 10), plain}
	for _, o := range owners {
		args = append(args, o[37:], strconv.FormatInt(waits[o], 10))
	}
	return l.eval(scripts.FairLeave, l.keys(), args...).AsInt64()
}

func (l *fairLock) force(now int64, owners ...string) (int64, error) {
	args := append([]string{strconv.FormatInt(now, 10), plain}, owners...)
	return l.eval(scripts.FairForceUnlock, l.keys(), args...).AsInt64()
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// A fairState is the content of a fair lock in Redis.
type fairState struct {
	holder map[string]string
	queue  []string
	times  map[string]int64 // after epoch
	notes  []string
}

func (l *fairLock) state() fairState {
	l.t.Helper()
	var s fairState
	var err error
	s.holder, err = l.command("HGETALL", "KEY").AsStrMap()
	require.NoError(l.t, err)
	s.queue, err = l.command("LRANGE", l.queue(), "0", "-1").AsStrSlice()
	require.NoError(l.t, err)
	times, err := l.command("ZRANGE", l.times(), "0", "-1", "WITHSCORES").AsZScores()
	require.NoError(l.t, err)
	s.times = map[string]int64{}
	for _, z := range times {
		s.times[z.Member] = int64(z.Score) - epoch
	}
	notes, err := l.command("HGETALL", l.notes()).AsStrMap()
	require.NoError(l.t, err)
	delete(notes, "last") // see TestFair_ExpelsWhoLetItRunOut
	s.notes = slices.Sorted(maps.Keys(notes))
	return s
}

// forever makes the lock never expire, so that the places of its waiters count from now.
func (l *fairLock) forever() { l.int("PERSIST", "KEY") }

// A fairRow describes the effect of a script on a lock that other owners hold or wait for, sent once and again. wants
// are the owners that asked for it before, in this order; the first of them holds it unless it is free.
type fairRow struct {
	name          string
	wants         func(l *fairLock) []string
	free          bool
	now           int64 // after epoch
	run           func(l *fairLock, now int64) (int64, error)
	first, second int64
	holder        func(l *fairLock) string
	queue         func(l *fairLock) []string
	times         []int64 // of the waiters, after epoch
	theirs        []string
	told          []string
}

func owners(of ...func(l *fairLock) string) func(l *fairLock) []string {
	return func(l *fairLock) []string {
		var all []string
		for _, f := range of {
			all = append(all, f(l))
		}
		return all
	}
}

func hears(l *fairLock) string  { return l.hears }
func hears2(l *fairLock) string { return l.hears2 }
func hears3(l *fairLock) string { return l.hears3 }
func deaf(l *fairLock) string   { return l.deaf }
func deaf2(l *fairLock) string  { return l.deaf2 }
func java(*fairLock) string     { return theirs }
func nobody(*fairLock) []string { return nil }
func noHolder(*fairLock) string { return "" }
func asks(o func(*fairLock) string, line string) func(l *fairLock, now int64) (int64, error) {
	return func(l *fairLock, now int64) (int64, error) { return first(l.ask(o(l), line, fairWait, now, "0")) }
}

func releases(o func(*fairLock) string) func(l *fairLock, now int64) (int64, error) {
	return func(l *fairLock, now int64) (int64, error) { return l.giveBack(o(l), fairWait, now) }
}

func TestFair(t *testing.T) {
	t.Parallel()
	const (
		held = -1    // for ever, in these rows
		lent = heirs // at most
	)
	rows := []fairRow{
		{"ask for a free lock", nobody, false, 0, asks(hears, "1"), taken, taken, hears, nobody, nil, nil, nil},
		{"ask for what others have", owners(java), false, 0, asks(hears, "1"), held, held, java, owners(hears), []int64{5000}, nil, nil},
		{"ask behind others", owners(java, deaf), false, 0, asks(hears, "1"), held, held, java, owners(deaf, hears), []int64{5000, 10000}, nil, nil},
		{"try what others have", owners(java), false, 0, asks(hears, "0"), held, held, java, nobody, nil, nil, nil},
		{"ask again, later: the place lasts from now", owners(java, deaf, hears), false, 3000, asks(hears, "1"), held, held, java, owners(deaf, hears), []int64{5000, 13000}, nil, nil},
		{"the head asks for a free lock", owners(java, hears, deaf), true, 0, asks(hears, "1"), taken, taken, hears, owners(deaf), []int64{5000}, nil, nil},
		{"a newcomer asks for a free lock that is another's turn", owners(java, hears), true, 0, asks(deaf, "1"), lent, held, hears, owners(deaf), []int64{5000}, nil, []string{"granted"}},
		{"a newcomer tries a free lock that is a Java thread's turn", owners(hears, java), true, 1000, asks(hears2, "0"), 4000, 4000, noHolder, owners(java), []int64{5000}, []string{"0", "0"}, nil},
		{"the head does not listen, and has the time of its lease", owners(java, deaf), true, 1000, asks(hears, "0"), 2000, 2000, noHolder, owners(deaf), []int64{3000}, nil, nil},
		{"the head's time is over", owners(java, deaf), true, 5000, asks(hears, "1"), taken, taken, hears, nobody, nil, nil, nil},
		{"the time of one that lives is over", owners(java, hears, hears2), false, 5000, asks(hears2, "1"), held, held, java, owners(hears2), []int64{10000}, nil, []string{"look"}},
		{"give back, and nobody waits", owners(hears), false, 0, releases(hears), 0, -1, noHolder, nobody, nil, nil, nil},
		{"give back to a client that listens", owners(hears, hears2, java), false, 0, releases(hears), 1, -1, hears2, owners(java), []int64{5000}, nil, []string{"granted"}},
		{"give back to a Java thread", owners(hears, java, hears2), false, 0, releases(hears), 0, -1, noHolder, owners(java, hears2), []int64{5000, 10000}, []string{"0", "0"}, []string{"soon", "soon"}},
		{"give back to a client that does not listen", owners(hears, deaf), false, 0, releases(hears), 2, -1, noHolder, owners(deaf), []int64{2000}, nil, nil},
		{"give back to a client that does not listen, before one that does", owners(hears, deaf, java, hears2), false, 0, releases(hears), 0, -1, noHolder, owners(deaf, java, hears2), []int64{2000, 10000, 15000}, nil, []string{"soon", "soon"}},
		{"give back to one of several that do not listen", owners(hears, deaf, hears2, deaf2, java), false, 0, releases(hears), 0, -1, noHolder, owners(deaf, hears2, deaf2, java), []int64{2000, 10000, 2000, 20000}, nil, []string{"soon", "soon"}},
		{"give up", owners(java, hears, deaf), false, 0, releases(hears), -1, -1, java, owners(deaf), []int64{5000}, nil, nil},
		{"the head gives up a free lock", owners(java, deaf, hears), true, 0, releases(deaf), -1, -1, hears, nobody, nil, nil, []string{"granted"}},
		{"give back what is another's", owners(java), false, 0, releases(hears), -1, -1, java, nobody, nil, nil, nil},
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					l := newFairLock(newSceneUnheard(t, c))
					l.want(r.wants(l)...)
					if r.free {
						l.int("DEL", "KEY")
					}
					for i, want := range []int64{r.first, r.second} {
						got, err := r.run(l, epoch+r.now)
						require.NoError(t, err)
						if want == lent && l.int("EXISTS", "KEY") == 1 {
							require.Greater(t, got, int64(0))
							require.LessOrEqual(t, got, want)
							l.forever()
							continue
						}
						require.Equal(t, want, got, "run %d", i+1)
						l.forever()
					}
					want := fairState{holder: map[string]string{}, queue: []string{}, times: map[string]int64{}}
					if o := r.holder(l); o != "" {
						want.holder[o] = "1"
					}
					for i, o := range r.queue(l) {
						want.queue = append(want.queue, o)
						want.times[o] = r.times[i]
						if o != theirs {
							want.notes = append(want.notes, o)
						}
					}
					slices.Sort(want.notes)
					require.Equal(t, want, l.state())
					require.Equal(t, r.theirs, l.messages())
					require.NoError(t, l.command("PUBLISH", "lockgen_process:"+strings.TrimSuffix(l.hears, ":1"), "end").Error())
					var told []string
					for kind := range l.told {
						if kind == "end" {
							break
						}
						if kind, _, _ = strings.Cut(kind, " "); kind != "wanted" { // see TestFair_TellsTheHolder
							told = append(told, kind)
						}
					}
					require.Equal(t, r.told, told)
				})
			}
		})
	}
}

// TestFair_TellsTheHolder shows that the holder gets a message each time that the first waiter asks: a server that lost
// writes may name a holder that is over.
func TestFair_TellsTheHolder(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			wants := func(owner string, now int64) {
				_, err := l.ask(owner, "1", fairWait, now, "0")
				require.NoError(t, err)
			}
			told := func(want ...string) {
				t.Helper()
				require.NoError(t, l.command("PUBLISH", "lockgen_process:"+l.hears[:36], "end").Error())
				for _, message := range append(want, "end") {
					require.Equal(t, message, <-l.told)
				}
			}
			wants(l.hears, epoch)
			l.forever()
			told()
			wants(l.deaf, epoch)
			told("wanted 1")
			wants(theirs, epoch)
			told()
			wants(l.deaf, epoch)
			told("wanted 1")
			_, err := l.leave(epoch, nil) // without owners
			require.NoError(t, err)
			told("wanted 1")
		})
	}
}

// TestFair_ExpelsWhoLetItRunOut shows that a process that lets a granted lock expire costs the others one lease, and
// not one for each of its waiters.
func TestFair_ExpelsWhoLetItRunOut(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			l.want(l.deaf2, l.hears, l.hears2, l.deaf, l.hears3)
			_, err := l.giveBack(l.deaf2, fairWait, epoch)
			require.NoError(t, err)
			require.Equal(t, []string{l.hears2, l.deaf, l.hears3}, l.state().queue)
			l.int("DEL", "KEY") // its lease is over
			got, err := first(l.ask(l.deaf, "2", fairWait, epoch, "0"))
			require.NoError(t, err)
			require.EqualValues(t, taken, got)
			require.Empty(t, l.state().queue)

			_, err = l.giveBack(l.deaf, fairWait, epoch)
			require.NoError(t, err)
			require.Zero(t, l.int("EXISTS", l.notes()), "nothing is left")
		})
	}
}

// TestFair_KeepsThePlacesOfAProcessThatLives shows that the waiters of a process whose grant was taken keep their places if the process
// has run a script since.
func TestFair_KeepsThePlacesOfAProcessThatLives(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for name, shows := range map[string]func(l *fairLock) error{
			"asks":                 func(l *fairLock) error { return errOf(l.ask(l.hears2, "2", fairWait, epoch, "0")) },
			"gives back its grant": func(l *fairLock) error { return errOf(l.giveBack(l.hears, fairWait, epoch)) },
			"withdraws its grant":  func(l *fairLock) error { return errOf(l.leave(epoch, nil, l.hears)) },
			"has the holder asked": func(l *fairLock) error { return errOf(l.leave(epoch, nil)) },
		} {
			t.Run(b.name+" "+name, func(t *testing.T) {
				t.Parallel()
				l := newFairLock(newSceneUnheard(t, b.client(t)))
				l.want(l.deaf2, l.hears, l.hears2, l.deaf, l.hears3)
				_, err := l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				l.set([][]string{{"DEL", "KEY"}, {"HSET", "KEY", theirs, "1"}}) // a Java program takes it by force
				require.NoError(t, shows(l))
				l.int("DEL", "KEY")
				_, err = l.ask(l.deaf, "2", fairWait, epoch, "0")
				require.NoError(t, err)
				s := l.state()
				require.Equal(t, map[string]string{l.hears2: "1"}, s.holder)
				require.Equal(t, []string{l.deaf, l.hears3}, s.queue)
			})
		}
	}
}

// TestFair_RemembersWhoHadItOnlyWhileOthersWait shows that the last grantee is stored only while others wait: the data
// that a dead process leaves goes with its lease.
func TestFair_RemembersWhoHadItOnlyWhileOthersWait(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for _, goes := range []string{"nobody waits", "the last one leaves", "the last one is withdrawn", "the last one is evicted"} {
			t.Run(b.name+"/"+goes, func(t *testing.T) {
				t.Parallel()
				l := newFairLock(newSceneUnheard(t, b.client(t)))
				wants := []string{l.deaf2, l.hears}
				if goes != "nobody waits" {
					wants = append(wants, l.deaf)
				}
				l.want(wants...)
				_, err := l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				require.Equal(t, map[string]string{l.hears: "1"}, l.state().holder)
				switch goes {
				case "the last one leaves":
					_, err = l.giveBack(l.deaf, fairWait, epoch)
				case "the last one is withdrawn":
					process := *l
					process.hears = l.deaf
					_, err = process.leave(epoch, map[string]int64{l.deaf: fairWait}, l.deaf)
				case "the last one is evicted":
					_, err = l.ask(theirs, "0", fairWait, epoch+10*fairWait, "0")
				}
				require.NoError(t, err)
				require.Empty(t, l.state().queue)
				require.Zero(t, l.int("EXISTS", l.notes()))
				require.Equal(t, map[string]string{l.hears: "1"}, l.state().holder)
			})
		}
	}
}

// TestFair_WhoComesLateKeepsTheOrder shows that the waiters of a process that has not subscribed yet when it is next keep their
// places when the first of them asks, also if places last for longer than the time that such a process has.
func TestFair_WhoComesLateKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			third := l.deaf2 + "1"
			for i, owner := range []string{theirs, l.deaf, l.deaf2, third} {
				n, err := first(l.ask(owner, "1", fairWait, epoch, "0"))
				require.NoError(t, err)
				require.Equal(t, i == 0, n == taken)
				l.forever()
			}
			l.int("DEL", "KEY")
			for _, asker := range []string{third, l.deaf2} { // nobody hears that the lock is free, and the asker is not next
				n, err := first(l.ask(asker, "2", fairWait, epoch, "0"))
				require.NoError(t, err)
				require.Positive(t, n)
			}
			n, err := first(l.ask(l.deaf, "2", fairWait, epoch+1, "0"))
			require.NoError(t, err)
			require.EqualValues(t, taken, n)
			l.forever()
			_, err = l.ask(third, "2", fairWait, epoch+2, "0")
			require.NoError(t, err)
			require.Equal(t, []string{l.deaf2, third}, l.state().queue)
			n, err = l.giveBack(l.deaf, fairWait, epoch+3)
			require.NoError(t, err)
			require.NotEqual(t, int64(-1), n)
			n, err = first(l.ask(l.deaf2, "2", fairWait, epoch+4, "0"))
			require.NoError(t, err)
			require.EqualValues(t, taken, n, "it is next")
		})
	}
}

// A Java thread that is next and does not come, since it is dead, delays the others by the duration of one place, however long the waiters
// that gave up ahead of it might have waited.
func TestFair_AThreadThatIsNextHasOnePlace(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			l.set([][]string{{"HSET", "KEY", ours, "1"}, {"PEXPIRE", "KEY", "30000"}})
			var hasty []string // threads of tryLock(1, SECONDS)
			for i := range 10 {
				hasty = append(hasty, fmt.Sprintf("%s%d", theirs[:37], 100+i))
				_, err := l.ask(hasty[i], "1", 1000, epoch, "0")
				require.NoError(t, err)
			}
			for _, line := range []string{"1", "2"} {
				_, err := l.ask(l.hears, line, fairWait, epoch, "0")
				require.NoError(t, err)
			}
			l.want(theirs, l.hears2)
			for _, owner := range hasty {
				_, err := l.giveBack(owner, 1000, epoch)
				require.NoError(t, err)
			}
			l.int("DEL", "KEY")
			n, err := first(l.ask(l.hears, "2", fairWait, epoch, "0"))
			require.NoError(t, err)
			require.EqualValues(t, taken, n)
			_, err = l.giveBack(l.hears, fairWait, epoch)
			require.NoError(t, err)
			require.Greater(t, l.state().times[theirs], 12*fairWait, "as if each of the hasty ones had waited for as long as the waiter behind them")
			for _, later := range []int64{0, 1000} { // one place, from the first request on
				reply, err := l.ask(l.hears2, "2", fairWait, epoch+later, "0")
				require.NoError(t, err)
				require.Equal(t, []int64{fairWait - later, 1, 1}, reply[:3])
			}
			reply, err := l.ask(l.hears2, "2", fairWait, epoch+fairWait, "0")
			require.NoError(t, err)
			require.EqualValues(t, taken, reply[0])
			require.Empty(t, l.state().queue)
		})
	}
}

// TestFair_SaysWhosePlaceIsLost shows that an owner learns that its place in the queue is lost.
func TestFair_SaysWhosePlaceIsLost(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			lost := func(owner, line string) bool {
				reply, err := l.ask(owner, line, fairWait, epoch, "0")
				require.NoError(t, err)
				return reply[2] >= 2
			}
			require.False(t, lost(l.deaf2, "1"))
			require.False(t, lost(l.deaf2, "2"), "it has the lock")
			require.False(t, lost(l.deaf, "1"))
			require.False(t, lost(l.deaf, "2"))
			l.int("DEL", l.queue(), l.times(), l.notes())
			require.True(t, lost(l.deaf, "2"), "taken")
			require.False(t, lost(l.deaf, "2"))
			l.int("DEL", l.queue(), l.times(), l.notes(), "KEY")
			require.True(t, lost(l.deaf, "2"), "free")
			require.False(t, lost(l.deaf, "2"))
		})
	}
}

// TestFair_APlaceWithoutATimeEnds shows that a dead head of the queue keeps nobody out for ever, although the times of the waiters were
// deleted, or evicted.
func TestFair_APlaceWithoutATimeEnds(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for name, head := range map[string]func(l *fairLock) string{"that does not listen": deaf, "in Java": java} {
			t.Run(b.name+" "+name, func(t *testing.T) {
				t.Parallel()
				l := newFairLock(newSceneUnheard(t, b.client(t)))
				l.want(l.deaf2, head(l), l.hears)
				l.int("DEL", l.times())
				_, err := l.ask(l.hears, "2", fairWait, epoch, "0")
				require.NoError(t, err)
				require.Equal(t, []string{head(l), l.hears}, l.state().queue, "it may live")
				_, err = l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				_, err = l.ask(l.hears, "2", fairWait, epoch, "0")
				require.NoError(t, err)
				require.Equal(t, []string{head(l), l.hears}, l.state().queue, "it may be about to come")
				ask, err := l.ask(l.hears, "2", fairWait, epoch+max(heirs, fairWait), "0")
				require.NoError(t, err)
				require.EqualValues(t, taken, ask[0])
			})
		}
	}
}

// TestFair_Followers shows that the waiters right behind the head that are of its process and want the same are named
// in its grant, and leave the queue with it.
func TestFair_Followers(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			// in returns a lock that is held, and for which owners wait.
			in := func(t *testing.T, owners func(l *fairLock) []string, tokens string) *fairLock {
				t.Helper()
				l := newFairLock(newSceneUnheard(t, c))
				for i, owner := range append([]string{l.deaf2}, owners(l)...) {
					note := l.note(owner, fairWait)
					if i > 0 && note != "" {
						note = fmt.Sprintf("%d %d %s 60000", fairWait, heirs, tokens)
					}
					require.NoError(t, l.eval(scripts.FairAcquire, l.keys(), "600000", owner, "1", strconv.FormatInt(fairWait, 10),
						strconv.FormatInt(epoch, 10), plain, note, "0", "60000").Error())
					l.forever()
				}
				return l
			}
			// grants returns the content of the grant after a release: the token, and the followers.
			grants := func(t *testing.T, l *fairLock) (token int64, after string) {
				t.Helper()
				n, err := l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
				for message := range l.told {
					if rest, ok := strings.CutPrefix(message, "granted "); ok {
						words := strings.SplitN(rest, " ", 5)
						token, err = strconv.ParseInt(words[3], 10, 64)
						require.NoError(t, err)
						if len(words) == 5 {
							after = words[4]
						}
						return token, after
					}
				}
				return 0, ""
			}

			t.Run("who follows", func(t *testing.T) {
				t.Parallel()
				for want, owners := range map[string]func(l *fairLock) []string{
					"":    owners(hears),
					"2":   owners(hears, hears2),
					"2 5": owners(hears, hears2, hears3),
					"5":   owners(hears, hears3, deaf, hears2),
					"5 2": owners(hears, hears3, hears2, java),
				} {
					token, after := grants(t, in(t, owners, "0"))
					require.Equal(t, want, after)
					require.Zero(t, token)
				}
				for _, owners := range []func(l *fairLock) []string{owners(hears, java, hears2), owners(hears, deaf, hears2, hears3)} {
					_, after := grants(t, in(t, owners, "0"))
					require.Empty(t, after, "others stand between")
				}
			})

			t.Run("who wants something else does not", func(t *testing.T) {
				t.Parallel()
				l := in(t, owners(hears, hears2, hears3), "0")
				l.int("HSET", l.notes(), l.hears2, "4000 2000 0 0")
				_, after := grants(t, l)
				require.Empty(t, after)
				l = in(t, owners(hears, hears2, hears3), "0")
				l.int("HDEL", l.notes(), l.hears3)
				_, after = grants(t, l)
				require.Equal(t, "2", after)
			})

			t.Run("no more than 63", func(t *testing.T) {
				t.Parallel()
				_, after := grants(t, in(t, func(l *fairLock) (all []string) {
					for i := range 100 {
						all = append(all, strings.TrimSuffix(l.hears, "1")+strconv.Itoa(100+i))
					}
					return all
				}, "0"))
				require.Len(t, strings.Fields(after), 63)
			})

			t.Run("tokens for all", func(t *testing.T) {
				t.Parallel()
				l := in(t, owners(hears, hears2, hears3), "1")
				token, after := grants(t, l)
				require.Equal(t, "2 5", after)
				last, err := l.command("GET", l.counter()).AsInt64()
				require.NoError(t, err)
				require.Equal(t, token+2, last)
			})

			t.Run("give back for all", func(t *testing.T) {
				t.Parallel()
				l := in(t, owners(hears, hears2, hears3, deaf, java), "0")
				before := l.state().times
				grants(t, l)
				require.Equal(t, []string{l.hears2, l.hears3, l.deaf, theirs}, l.state().queue, "they stay in it until then")
				for range 2 {
					_, err := l.giveBack(l.hears, fairWait, epoch, "2", "5")
					require.NoError(t, err)
					s := l.state()
					require.Equal(t, []string{l.deaf, theirs}, s.queue)
					require.Equal(t, heirs, s.times[l.deaf], "whose process does not listen")
					require.Equal(t, before[theirs]-3*fairWait, s.times[theirs], "as if each had its turn")
					require.Equal(t, []string{l.deaf}, s.notes)
				}
			})

			t.Run("give back what was taken, and given to one of them", func(t *testing.T) {
				t.Parallel()
				l := in(t, owners(hears, hears2, hears3, java), "0")
				grants(t, l)
				_, err := l.force(epoch)
				require.NoError(t, err)
				require.Equal(t, map[string]string{l.hears2: "1"}, l.state().holder)
				l.messages()
				n, err := l.giveBack(l.hears, fairWait, epoch, "2", "5")
				require.NoError(t, err)
				require.EqualValues(t, -1, n)
				require.Empty(t, l.state().holder)
				require.Equal(t, []string{theirs}, l.state().queue)
				require.Equal(t, []string{"0"}, l.messages(), "the next is told")
			})

			t.Run("give back behind somebody else", func(t *testing.T) {
				t.Parallel()
				l := in(t, owners(hears, hears2, hears3, java), "0")
				grants(t, l)
				l.set([][]string{{"DEL", "KEY"}, {"HSET", "KEY", "somebody", "1"}, {"RPOPLPUSH", l.queue(), l.queue()}})
				n, err := l.giveBack(l.hears, fairWait, epoch, "2", "5")
				require.NoError(t, err)
				require.EqualValues(t, -1, n)
				require.Equal(t, map[string]string{"somebody": "1"}, l.state().holder)
				require.Equal(t, []string{theirs}, l.state().queue)
			})
		})
	}
}

func TestFair_LeasesAndTokens(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			reply, err := l.ask(l.hears, "1", fairWait, epoch, "1")
			require.NoError(t, err)
			require.EqualValues(t, taken, reply[0])
			token := reply[1]
			require.Positive(t, token)
			require.InDelta(t, 600_000, l.int("PTTL", "KEY"), 60_000)
			l.int("PEXPIRE", "KEY", "900000")
			reply, err = l.ask(l.hears, "1", fairWait, epoch, "1")
			require.NoError(t, err)
			require.Greater(t, reply[1], token)
			require.Greater(t, l.int("PTTL", "KEY"), int64(600_000), "a lease is not cut short")

			reply, err = l.ask(l.hears2, "1", fairWait, epoch, "0")
			require.NoError(t, err)
			require.Zero(t, reply[1], "a process of this library has it")
			require.Zero(t, reply[2], "and it is not free")
			require.Positive(t, reply[3])
			reply, err = l.ask(theirs, "1", fairWait, epoch, "0")
			require.NoError(t, err)
			require.Zero(t, reply[1])
			reply, err = l.ask(l.deaf, "1", fairWait, epoch, "0")
			require.NoError(t, err)
			require.EqualValues(t, 1, reply[1], "a Java thread stands before it")
			require.Positive(t, l.int("PTTL", l.notes()), "what is this library's goes by itself")

			_, err = l.giveBack(l.hears, fairWait, epoch)
			require.NoError(t, err)
			require.InDelta(t, heirs, l.int("PTTL", "KEY"), float64(heirs))
			held, ok := l.dump().(fields)
			require.True(t, ok)
			taken, err := l.force(epoch, l.hears)
			require.NoError(t, err)
			require.Zero(t, taken, "it is another one's")
			taken, err = l.force(epoch, slices.Collect(maps.Keys(held))...)
			require.NoError(t, err)
			require.EqualValues(t, 1, taken)
			taken, err = l.force(epoch)
			require.NoError(t, err)
			require.Zero(t, taken)
			require.Equal(t, []string{"0"}, l.messages())
		})
	}
}

func TestFair_OtherTypes(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			l.set(aString)
			_, err := l.ask(l.hears, "1", fairWait, epoch, "0")
			require.ErrorContains(t, err, "WRONGTYPE")
			_, err = l.force(epoch)
			require.ErrorContains(t, err, "WRONGTYPE")
			n, err := l.giveBack(l.hears, fairWait, epoch)
			require.NoError(t, err)
			require.EqualValues(t, -1, n)
			require.Equal(t, "text", l.dump())
			l.int("DEL", "KEY")

			require.NoError(t, l.command("SET", l.queue(), "text").Error())
			_, err = l.ask(l.hears, "1", fairWait, epoch, "0")
			require.ErrorContains(t, err, "WRONGTYPE")
			require.Nil(t, l.dump())
			l.set([][]string{{"HSET", "KEY", l.hears, "1"}})
			n, err = l.giveBack(l.hears, fairWait, epoch)
			require.NoError(t, err)
			require.Zero(t, n, "it is given back at any rate")
			require.Nil(t, l.dump())
			l.int("DEL", l.queue())

			require.NoError(t, l.command("SET", l.counter(), "text").Error())
			_, err = l.ask(l.hears, "1", fairWait, epoch, "1")
			require.ErrorContains(t, err, "not an integer")
			require.Nil(t, l.dump())
		})
	}
}

// A fairModel is a model of the scripts in Go.
type fairModel struct {
	l *fairLock
	fairState
	now   int64
	waits map[string]int64
	last  string
}

func (m *fairModel) evict() {
	for len(m.queue) > 0 && m.times[m.queue[0]] <= m.now {
		m.out(0)
	}
}

func (m *fairModel) out(i int) {
	owner := m.queue[i]
	m.queue = slices.Delete(slices.Clone(m.queue), i, i+1)
	delete(m.times, owner)
	m.notes = slices.DeleteFunc(slices.Clone(m.notes), func(o string) bool { return o == owner })
	if len(m.queue) == 0 {
		m.last = ""
	}
}

func (m *fairModel) earlier(time, ms int64) int64 { return max(time-ms, min(time, m.now+heirs)) }

func (m *fairModel) grant(owner string) {
	m.holder = map[string]string{owner: "1"}
	if len(m.queue) > 0 {
		m.out(0)
	}
	for o := range m.times {
		m.times[o] = m.earlier(m.times[o], m.waits[owner])
	}
}

func (m *fairModel) pass() int64 {
	m.evict()
	if len(m.holder) > 0 || len(m.queue) == 0 {
		return 0
	}
	head := m.queue[0]
	switch head {
	case m.l.hears, m.l.hears2, m.l.hears3:
		m.grant(head)
		if len(m.queue) > 0 {
			m.last = head
		}
		return 1
	case m.l.deaf, m.l.deaf2:
		over := min(m.times[head], m.now+heirs)
		for _, o := range []string{m.l.deaf, m.l.deaf2} {
			if slices.Contains(m.queue, o) {
				m.times[o] = min(m.times[o], over)
			}
		}
		if !slices.ContainsFunc(m.queue, func(o string) bool { return o == m.l.hears || o == m.l.hears2 || o == m.l.hears3 }) {
			return 2
		}
	}
	return 0
}

// ask returns whether the lock is granted.
func (m *fairModel) ask(owner string, line bool) bool {
	if m.holder[owner] != "" {
		m.last = ""
		return true
	}
	if len(m.holder) == 0 {
		m.expel(owner)
	} else {
		m.trust(owner)
	}
	m.evict()
	if len(m.holder) == 0 && (len(m.queue) == 0 || m.queue[0] == owner) {
		m.grant(owner)
		return true
	}
	if line {
		switch i := slices.Index(m.queue, owner); {
		case i >= 0:
			m.times[owner] = max(m.times[owner], m.now+m.waits[owner]*int64(i+1))
		case len(m.queue) > 0:
			m.times[owner] = m.times[m.queue[len(m.queue)-1]] + m.waits[owner]
		default:
			m.times[owner] = m.now + m.waits[owner]
		}
		if !slices.Contains(m.queue, owner) {
			m.queue = append(m.queue, owner)
			if owner != theirs {
				m.notes = append(m.notes, owner)
				slices.Sort(m.notes)
			}
		}
	}
	m.pass()
	if len(m.holder) == 0 && len(m.queue) > 0 && m.queue[0] == theirs {
		m.times[theirs] = min(m.times[theirs], m.now+fairWait)
	}
	return false
}

// leave removes owner from the queue.
func (m *fairModel) leave(owner string) {
	if i := slices.Index(m.queue, owner); i >= 0 {
		for _, later := range m.queue[i+1:] {
			m.times[later] = m.earlier(m.times[later], m.waits[owner])
		}
		m.out(i)
	}
}

func (m *fairModel) giveBack(owner string, after []string) int64 {
	ours := m.holder[owner] != ""
	delete(m.holder, owner)
	m.leave(owner)
	for _, o := range after {
		if !ours {
			delete(m.holder, o)
		}
		m.leave(o)
	}
	if ours {
		m.last = ""
		return m.pass()
	}
	if len(m.holder) == 0 {
		m.expel(owner)
		m.pass()
	} else {
		m.trust(owner)
	}
	return -1
}

// expel removes the waiters of the last grantee's process from the queue of a free lock, unless
// asker is of it.
func (m *fairModel) expel(asker string) {
	last := m.last
	m.last = ""
	if last == "" || last[:36] == asker[:36] {
		return
	}
	for _, o := range slices.Clone(m.queue) {
		if o[:36] == last[:36] {
			m.leave(o)
		}
	}
}

// trust forgets the last grantee if asker is of its process, and another owner has the lock.
func (m *fairModel) trust(asker string) {
	if m.last != "" && m.last[:36] == asker[:36] && m.holder[m.last] == "" {
		m.last = ""
	}
}

// withdraw returns the reply of the script.
func (m *fairModel) withdraw(owners []string) int64 {
	for _, o := range owners {
		if m.holder[o] != "" {
			m.last = ""
		}
		delete(m.holder, o)
		m.leave(o)
	}
	if len(m.holder) > 0 {
		m.trust(m.l.hears)
		return 0
	}
	m.expel(m.l.hears)
	if m.pass() == 2 {
		return 2
	}
	return 0
}

func TestFair_BehavesAsItsModel(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := newFairLock(newSceneUnheard(t, b.client(t)))
			go func() {
				for range l.told { //nolint:revive // TestFair checks the messages
				}
			}()
			rapid.Check(t, func(r *rapid.T) {
				for _, key := range l.keys() {
					l.int("DEL", key)
				}
				l.messages()
				m := &fairModel{
					l:         l,
					fairState: fairState{holder: map[string]string{}, queue: []string{}, times: map[string]int64{}},
					waits:     map[string]int64{l.hears: 5000, l.hears2: 3000, l.hears3: 5000, l.deaf: 5000, l.deaf2: 6000, theirs: 7000},
				}
				who := rapid.SampledFrom([]string{l.hears, l.hears2, l.hears3, l.deaf, l.deaf2, theirs})
				r.Repeat(map[string]func(*rapid.T){
					"ask": func(r *rapid.T) {
						o, line := who.Draw(r, "owner"), rapid.SampledFrom([]string{"0", "1"}).Draw(r, "line")
						for range rapid.IntRange(1, 2).Draw(r, "times") {
							want := m.ask(o, line == "1")
							got, err := first(l.ask(o, line, m.waits[o], epoch+m.now, "0"))
							require.NoError(r, err)
							require.Equal(r, want, got == taken, "reply %d", got)
							l.forever()
						}
					},
					"give back": func(r *rapid.T) {
						o := who.Draw(r, "owner")
						var after, numbers []string // of one process, which would have waited for as long
						if o == l.hears && rapid.Bool().Draw(r, "a row") {
							after, numbers = []string{l.hears3}, []string{"5"}
						}
						for range rapid.IntRange(1, 2).Draw(r, "times") {
							want := m.giveBack(o, after)
							got, err := l.giveBack(o, m.waits[o], epoch+m.now, numbers...)
							require.NoError(r, err)
							require.Equal(r, want, got)
							l.forever()
						}
					},
					"withdraw": func(r *rapid.T) {
						owners := rapid.SliceOfDistinct(rapid.SampledFrom([]string{l.hears, l.hears2, l.hears3}), rapid.ID).Draw(r, "owners")
						for range rapid.IntRange(1, 2).Draw(r, "times") {
							want := m.withdraw(owners)
							got, err := l.leave(epoch+m.now, m.waits, owners...)
							require.NoError(r, err)
							require.Equal(r, want, got)
							l.forever()
						}
					},
					"expire": func(*rapid.T) {
						clear(m.holder)
						l.int("DEL", "KEY")
					},
					"a Java program takes it by force": func(*rapid.T) {
						thread := theirs[:37] + "7"
						m.holder = map[string]string{thread: "1"}
						l.set([][]string{{"DEL", "KEY"}, {"HSET", "KEY", thread, "1"}})
					},
					"force": func(r *rapid.T) {
						want := int64(len(m.holder))
						if want == 1 {
							clear(m.holder)
							m.last = ""
							m.pass()
						}
						got, err := l.force(epoch + m.now)
						require.NoError(r, err)
						require.Equal(r, want, got)
						l.forever()
					},
					"time passes": func(r *rapid.T) { m.now += rapid.Int64Range(1, 6000).Draw(r, "ms") },
					"": func(r *rapid.T) {
						s := l.state()
						require.Equal(r, m.fairState.holder, s.holder)
						require.Equal(r, m.fairState.queue, s.queue)
						require.Equal(r, m.fairState.times, s.times)
						require.ElementsMatch(r, m.fairState.notes, s.notes)
						l.messages()
					},
				})
			})
		})
	}
}

// The tests below repeat Redisson's tests of its fair lock's scripts, under their names. A lock has 30 s, a place 5 s.

func driftLock(t *testing.T) *fairLock {
	t.Helper()
	l := newFairLock(newSceneUnheard(t, backends[0].client(t)))
	l.set([][]string{{"HSET", "KEY", java(l), "1"}, {"PEXPIRE", "KEY", "30000"}})
	for i, owner := range []string{l.hears, l.deaf, l.hears2} {
		reply, err := l.ask(owner, "1", fairWait, epoch, "0")
		require.NoError(t, err)
		require.InDelta(t, 30_000, reply[0], 2000)
		require.InDelta(t, 35_000+5000*i, l.state().times[owner], 2000)
	}
	return l
}

func TestRedisson_Fair_AcquireFailedTimeoutDrift_Descrete(t *testing.T) {
	t.Parallel()
	l := driftLock(t)
	_, err := l.giveBack(l.deaf, fairWait, epoch)
	require.NoError(t, err)
	s := l.state()
	require.Equal(t, []string{l.hears, l.hears2}, s.queue)
	require.InDelta(t, 35_000, s.times[l.hears], 2000)
	require.InDelta(t, 40_000, s.times[l.hears2], 2000, "the waiters behind come forward")
	for _, owner := range s.queue {
		reply, err := l.ask(owner, "1", fairWait, epoch, "0")
		require.NoError(t, err)
		require.InDelta(t, 30_000, reply[0], 2000)
	}
	require.Equal(t, s.queue, l.state().queue)
}

func TestRedisson_Fair_LockAcquiredTimeoutDrift_Descrete(t *testing.T) {
	t.Parallel()
	l := driftLock(t)
	before := l.state()
	l.int("DEL", "KEY")
	reply, err := l.ask(l.hears, "1", fairWait, epoch, "0")
	require.NoError(t, err)
	require.EqualValues(t, taken, reply[0])
	after := l.state()
	require.Equal(t, before.queue[1:], after.queue)
	for _, owner := range after.queue {
		require.Equal(t, before.times[owner]-fairWait, after.times[owner])
	}
}

func TestRedisson_Fair_LockAcquiredBooleanTimeoutDrift_Descrete(t *testing.T) {
	t.Parallel()
	l := driftLock(t)
	before := l.state()
	reply, err := l.ask(ours, "0", fairWait, epoch, "0")
	require.NoError(t, err)
	require.GreaterOrEqual(t, reply[0], int64(0))
	require.Equal(t, before, l.state(), "a call that only tries changes nothing")
}

func TestRedisson_Fair_AbandonedTimeoutDrift_Descrete(t *testing.T) {
	t.Parallel()
	l := driftLock(t)
	l.int("DEL", "KEY")
	reply, err := l.ask(l.hears2, "1", fairWait, epoch+46_000, "0")
	require.NoError(t, err)
	require.EqualValues(t, taken, reply[0], "those before it are dead, and their times are over")
	require.Empty(t, l.state().queue)
}
