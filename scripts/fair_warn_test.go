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
