package protocol

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	p := NewProcess("u", PublishPlain, 0, 0)
	rw, fair := p.RW("order:7"), p.Fair("order:7")
	taggedRW, taggedFair := p.RW("{o}:7"), p.Fair("{o}:7")
	mutex, tagged := mutexNamesOf("order:7"), mutexNamesOf("{o}:7")
	for _, c := range []struct{ what, got, want string }{
		{"channel of a lock", LockChannel("order:7"), "redisson_lock__channel:{order:7}"},
		{"channel of a lock with a tag", LockChannel("{o}:7"), "redisson_lock__channel:{o}:7"},
		{"wait queue of a mutex", mutex.waiting, "lockgen_waiting:{order:7}"},
		{"channel of a mutex", mutex.channel, LockChannel("order:7")},
		{"counter of a mutex", mutex.counter, "redisson_lock_token:{order:7}"},
		{"wait queue of a mutex with a tag", tagged.waiting, "lockgen_waiting:{o}:7"},
		{"channel of a mutex with a tag", tagged.channel, LockChannel("{o}:7")},
		{"counter of a mutex with a tag", tagged.counter, "redisson_lock_token:{o}:7"},
		{"channel of a semaphore", CountChannel("order:7"), "redisson_sc:{order:7}"},
		{"channel of a latch", LatchChannel("order:7"), "redisson_countdownlatch__channel__{order:7}"},
		{"channel of a latch with a tag", LatchChannel("{o}:7"), "redisson_countdownlatch__channel__{{o}:7}"},
		{"permits that are taken", PermitLeases("order:7"), "{order:7}:timeout"},
		{"permits that are taken, with a tag", PermitLeases("{o}:7"), "{o}:7:timeout"},
		{"results of a semaphore", p.requests("order:7", countsPermits), "lockgen_requests:{order:7}:u:semaphore"},
		{"results of a semaphore of permits", p.requests("order:7", countsLeases), "lockgen_requests:{order:7}:u:permit"},
		{"results of a latch", p.requests("order:7", countsLatch), "lockgen_requests:{order:7}:u:latch"},
		{"mark of a deleted latch", deletedMark("order:7"), "lockgen_deleted:{order:7}"},
		{"hold of a reader", readerHold("order:7", "u:5"), "{order:7}:u:5:rwlock_timeout:1"},
		{"hold of a reader, with a tag", readerHold("{o}:7", "u:5"), "{o}:7:u:5:rwlock_timeout:1"},
		{"channel of a read-write lock", rw.Channel(), "redisson_rwlock:{order:7}"},
		{"channel of a read-write lock with a tag", taggedRW.Channel(), "redisson_rwlock:{o}:7"},
		{"waiters of a read-write lock", rw.WaiterChannel(), "lockgen_writer:{order:7}"},
		{"field of a reader", rw.Field(5, false), "u:5"},
		{"field of a writer", rw.Field(5, true), "u:5:write"},
		{"queue of a fair lock", fair.queue, "redisson_lock_queue:{order:7}"},
		{"times of a fair lock", fair.times, "redisson_lock_timeout:{order:7}"},
		{"notes of a fair lock with a tag", taggedFair.notes, "lockgen_fair:{o}:7"},
		{"channel of a waiter of a fair lock", fair.Channel("u:5"), "redisson_lock__channel:{order:7}:u:5"},
		{"channel of a client", ProcessChannel("u"), "lockgen_process:u"},
		{"channel of a client in a slot", TagChannel("u", "o"), "lockgen_process:u:{o}"},
		{"owner", p.Owner(18446744073709551615), "u:18446744073709551615"},
	} {
		require.Equal(t, c.want, c.got, c.what)
	}
	owner, writes := WriterOf("u:5:write")
	require.True(t, writes)
	require.Equal(t, "u:5", owner)
	_, writes = WriterOf("u:5")
	require.False(t, writes)
}

// The release of a lock for which nobody waits has its names and its owner as parts of one string.
func TestFree_OneAllocation(t *testing.T) { // testing.AllocsPerRun does not allow parallel tests
	p := NewProcess("11111111-1111-4111-9111-111111111111", PublishPlain, 0, 0)
	const last = 18446744073709551615
	require.LessOrEqual(t, len(p.Owner(last)), mostOwner)
	for _, key := range []string{"order:7", "{o}:7"} {
		var x Texts
		p.Free(&x, key, last)
		require.Equal(t, []string{key, mutexNamesOf(key).waiting}, append(slices.Clone(x.Keys), x.behind...))
		require.Equal(t, []string{p.Owner(last)}, x.Args)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			x.Clear()
			p.Free(&x, key, last)
		}), 1.0)
	}
}

// Everything beside a key is in its slot, whatever the key, if a cluster accepts it.
func TestSlot_OfEverythingBesideAKey(t *testing.T) {
	t.Parallel()
	p := NewProcess("u", PublishPlain, 0, 0)
	for _, key := range []string{"k", "order:7", "{o}:7", "a{o}b", "a{o}{p}", "{o}}", "ключ"} {
		require.Empty(t, CheckKey(key))
		require.Empty(t, CheckClusterKey(key))
		m, rw, fair, permits, latch := mutexNamesOf(key), p.RW(key), p.Fair(key), p.PermitSemaphore(key), p.Latch(key)
		for _, name := range []string{
			m.waiting, m.channel, m.counter, rw.channel, rw.counter, rw.readers, rw.writers, rw.turn, rw.prefix,
			readerHold(key, "u:5"), fair.queue, fair.times, fair.notes, fair.prefix, fair.counter,
			permits.channel, permits.leases, permits.requests, latch.requests, latch.deleted, TagChannel("u", HashTag(key)),
		} {
			require.Equal(t, Slot(key), Slot(name), name)
		}
	}
}

func TestSlot(t *testing.T) {
	t.Parallel()
	for key, slot := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, // CLUSTER KEYSLOT says so
	} {
		require.Equal(t, slot, Slot(key), key)
	}
	require.Equal(t, "{}bar", HashTag("{}bar"), "an empty tag is none")
	require.Equal(t, "{bar", HashTag("{bar"))
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", strings.Repeat("k", MaxKey), "{o}:7", "a}b", "a{o}"} {
		require.Empty(t, CheckKey(key))
	}
	for key, want := range map[string]string{
		"":                            "is empty",
		strings.Repeat("k", MaxKey+1): "is 1025 bytes long; at most 1024 are accepted",
		"a{b":                         `has a "{" that begins no hash tag`,
		"a{}b":                        `has a "{" that begins no hash tag`,
	} {
		require.Contains(t, CheckKey(key), want)
	}
	require.Contains(t, CheckClusterKey("a}b"), `has a "}" that ends no hash tag`)
	require.Empty(t, CheckClusterLatch("k"))
	require.Contains(t, CheckClusterLatch("{o}:7"), "has braces")
}

func TestNewUUID(t *testing.T) {
	t.Parallel()
	for listens, variant := range map[Listens]string{ListensPlain: "8", ListensSharded: "9", ListensCluster: "a"} {
		for range 100 {
			uuid := NewUUID(listens)
			require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-`+variant+`[0-9a-f]{3}-[0-9a-f]{12}$`), uuid)
			client, library := ClientOf(uuid + ":7")
			require.True(t, library)
			require.Equal(t, uuid, client)
		}
	}
	_, library := ClientOf("0a2f0e55-7b5c-4b1e-8f0a-1f2e3d4c5b6a:1") // of Java
	require.False(t, library)
	_, library = ClientOf("")
	require.False(t, library)
}
