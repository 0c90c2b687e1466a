package scripts_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFair_WarnsAProcessBehindManyWaiters shows that the scripts tell a waiter of another process when to ask, in case the process that is granted
// the lock is dead, however many waiters stand ahead of it that cannot ask.
func TestFair_WarnsAProcessBehindManyWaiters(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for name, ahead := range map[string]func(l *fairLock) string{"of the grantee": hears, "that do not listen": deaf, "in Java": java} {
			t.Run(b.name+" "+name, func(t *testing.T) {
				t.Parallel()
				l := newFairLock(newSceneUnheard(t, b.client(t)))
				other := newProcess()
				told := l.hear(other)
				l.want(l.deaf2, l.hears)
				for i := range 100 {
					l.want(ahead(l)[:37] + strconv.Itoa(100+i))
				}
				l.want(other + ":1")
				n, err := l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
				require.Equal(t, []string{"soon 1 2000"}, l.said(told, other))
			})
		}
	}
}

// TestFair_WhoLeavesHasTheNextWarned shows that the scripts tell the next waiter when to ask if the one leaves that they have told, while the grantee may be
// dead.
func TestFair_WhoLeavesHasTheNextWarned(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for name, leaves := range map[string]func(l *fairLock, owner string) error{
			"is withdrawn": func(l *fairLock, owner string) error {
				process := *l
				process.hears = owner
				return errOf(process.leave(epoch, map[string]int64{owner: fairWait}, owner))
			},
			"gives up": func(l *fairLock, owner string) error { return errOf(l.giveBack(owner, fairWait, epoch)) },
		} {
			t.Run(b.name+" "+name, func(t *testing.T) {
				t.Parallel()
				l := newFairLock(newSceneUnheard(t, b.client(t)))
				other := newProcess()
				told := l.hear(other)
				l.want(l.deaf2, l.hears, other+":1", other+":2", other+":3")
				n, err := l.giveBack(l.deaf2, fairWait, epoch)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
				require.Equal(t, []string{"soon 1 2000"}, l.said(told, other))
				require.NoError(t, leaves(l, other+":1"))
				heard := l.said(told, other)
				require.Len(t, heard, 1)
				require.Regexp(t, "^(soon 2 1?[0-9]{1,3}|soon 2 2000|granted 2 .*)$", heard[0], "granted after two seconds")
				l.int("PEXPIRE", "KEY", "60000")
				require.NoError(t, leaves(l, other+":2"))
				require.Empty(t, l.said(told, other), "the grantee has renewed its lease")
			})
		}
	}
}

// said returns the messages to a process since the last call.
func (l *fairLock) said(told <-chan string, process string) (all []string) {
	l.t.Helper()
	require.NoError(l.t, l.command("PUBLISH", "lockgen_process:"+process, "end").Error())
	for message := range told {
		if message == "end" {
			break
		}
		all = append(all, message)
	}
	return all
}
