package scripts_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestGrants_AreWrittenAgain shows that each script that grants something writes also when it is sent again. From Redis 7.2 on, WAIT waits for
// replicas only behind a command that wrote something over the same connection.
func TestGrants_AreWrittenAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t) // of its own: it counts what all clients change
	changes := func() int {
		text, err := server.Do("INFO", "persistence").ToString()
		require.NoError(t, err)
		n, err := strconv.Atoi(regexp.MustCompile(`rdb_changes_since_last_save:(\d+)`).FindStringSubmatch(text)[1])
		require.NoError(t, err)
		return n
	}
	unheard := func() *scene { return newSceneUnheard(t, server.Client()) }
	s, fair, reader, writer := newScene(t, server.Client()), newFairLock(unheard()), newSharedLock(unheard()), newSharedLock(unheard())
	semaphore, permits := newCounter(unheard()), newCounter(unheard())
	for name, grant := range map[string]func(again string) (int64, error){
		"acquire":           func(string) (int64, error) { return s.acquire(uuid + ":1") },
		"fair_acquire":      func(string) (int64, error) { return first(fair.ask(uuid+":1", "1", 60_000, 1, "0")) },
		"rw_read":           func(string) (int64, error) { return reader.read(uuid+":1", "", inLine, aMinute) },
		"rw_write":          func(string) (int64, error) { return writer.write(uuid+":1", inLine, aMinute) },
		"semaphore_acquire": func(again string) (int64, error) { return semaphore.take("1", again, "2", "2") },
		"permit_acquire":    func(again string) (int64, error) { return first(permits.permits("1", again, "2", "0123456789abcdef")) },
	} {
		granted, err := grant("0")
		require.NoError(t, err, name)
		before := changes()
		again, err := grant("1")
		require.NoError(t, err, name)
		require.Equal(t, granted, again, name)
		require.Greater(t, changes(), before, name)
	}
}
