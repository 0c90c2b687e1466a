package lockrt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// grabberVariable tells a process that this test binary was started as what to do: how many grants each of its goroutines is
// to have, and the addresses of the servers.
const grabberVariable = "LOCKGEN_MULTILOCK_GRABBER"

// grabbed are the keys of what the processes want. Each is that of a lock on one of two servers and of another one on the other, or
// of a RedLock on three servers and of one on three others.
var grabbed = []string{"mutex", "fair", "rw", "both", "red"}

// TestMultiLock_NoDeadlock has processes lock random subsets of locks of all kinds, in random order, alone and in MultiLocks of their
// own, for reading and for writing, with givers-up among them. Each has what it wants in the end, and nobody has it who must not.
func TestMultiLock_NoDeadlock(t *testing.T) {
	t.Parallel()
	const processes = 3
	grants := 60
	if testing.Short() {
		grants = 15
	}
	var servers []*redistest.RedisServer
	orders := strconv.Itoa(grants)
	for range 6 {
		servers = append(servers, redistest.Server(t))
		orders += " " + servers[len(servers)-1].Addr()
	}
	var wg sync.WaitGroup
	for i := range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMultiLock_Grabber$", "-test.timeout=2m", "-test.v")
		cmd.Env = append(os.Environ(), grabberVariable+"="+orders)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, redistest.Start(cmd))
		wg.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, said.String())
			}
		})
	}
	wg.Wait()
	for _, server := range servers {
		for _, key := range grabbed {
			gone(t, server, key)
		}
	}
}

// TestMultiLock_Grabber is the process that the test above starts. By itself it tests nothing.
func TestMultiLock_Grabber(t *testing.T) { //nolint:paralleltest // it is a process of its own
	orders := strings.Fields(os.Getenv(grabberVariable))
	if len(orders) == 0 {
		return
	}
	grants, err := strconv.Atoi(orders[0])
	require.NoError(t, err)
	var clients []*lockrt.Client
	for _, addr := range orders[1:] {
		clients = append(clients, clientOf(t, "redis://"+addr, lockrt.Options{}))
	}
	rc := redistest.NewClient(t, orders[1])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for had := 0; had < grants && !t.Failed(); {
				switch err := grabSome(ctx, rc, clients); {
				case err == nil:
					had++
				case ctx.Err() != nil, !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lockrt.ErrNotAcquired):
					t.Errorf("after %d grants: %v", had, err)
				}
			}
		})
	}
	wg.Wait()
}

// A grab is a member that somebody wants, and what others know it by.
type grab struct {
	lockrt.Locker

	name  string
	reads bool
}

// grabs returns all that there is to want, in random order.
func grabs(clients []*lockrt.Client) (all []grab, err error) {
	for i, c := range clients[:2] {
		either := func(key string) grab {
			if rand.N(2) == 0 {
				return grab{c.RWMutex(key), key, false}
			}
			return grab{c.RWMutex(key).RLocker(), key, true}
		}
		both := grab{c.Mutex("both"), "both", false}
		if i == 1 {
			both = either("both")
		}
		red := lockrt.NewRedLock("red", clients[3*i:3*i+3])
		for _, g := range []grab{{c.Mutex("mutex"), "mutex", false}, {c.FairMutex("fair"), "fair", false}, either("rw"), both, {red, "red", false}} {
			g.name = fmt.Sprintf("inside:%s:%d", g.name, i)
			all = append(all, g)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// The counters of the keys that workers hold: a negative one is a sole holder, else it is the number of readers.
var (
	comesIn = rueidis.NewLuaScript(`for i, key in ipairs(KEYS) do
	local n = tonumber(redis.call('get', key) or 0)
	if n < 0 or n > 0 and ARGV[i] == '-1' then return redis.error_reply('somebody else has ' .. key) end
	redis.call('incrby', key, ARGV[i])
end
return 'OK'`)
	goesOut = rueidis.NewLuaScript(`for i, key in ipairs(KEYS) do redis.call('decrby', key, ARGV[i]) end
return 'OK'`)
)

// grabSome locks some of all, tells the others, and unlocks.
func grabSome(ctx context.Context, rc rueidis.Client, clients []*lockrt.Client) error {
	all, err := grabs(clients)
	if err != nil {
		return err
	}
	var lockers []lockrt.Locker
	var names, counts []string
	for _, g := range all[:2+rand.N(3)] {
		lockers = append(lockers, g.Locker)
		names = append(names, g.name)
		counts = append(counts, map[bool]string{true: "1", false: "-1"}[g.reads])
	}
	if n := rand.N(len(lockers)); n > 0 {
		lockers = append(lockers[n:], lockrt.NewMultiLock(lockers[:n]...))
	}
	wanted := ctx
	if rand.N(4) == 0 {
		var cancel context.CancelFunc
		wanted, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	var opts []lockrt.LockOption
	if rand.N(4) == 0 {
		opts = append(opts, lockrt.WithWait(rand.N(20*time.Millisecond)))
	}
	lease, err := lockrt.NewMultiLock(lockers...).Lock(wanted, opts...)
	if err != nil {
		return err
	}
	err = comesIn.Exec(ctx, rc, names, counts).Error()
	if err == nil {
		err = goesOut.Exec(ctx, rc, names, counts).Error()
	}
	return errors.Join(err, lease.Unlock(ctx))
}
