package generatedtest_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	rtgen "github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// workshop is the service behind the wrapper: every method calls do.
type workshop struct {
	do    func(ctx context.Context) error
	lines iter.Seq[string]
	file  io.ReadWriteCloser
}

func (w workshop) Turn(ctx context.Context, _ gen.Part) error           { return w.do(ctx) }
func (w workshop) Try(ctx context.Context, _ gen.Part) error            { return w.do(ctx) }
func (w workshop) Work(ctx context.Context, _ gen.Part) error           { return w.do(ctx) }
func (w workshop) Help(ctx context.Context, _ gen.Part) (string, error) { return "next", w.do(ctx) }
func (w workshop) All(ctx context.Context, _ ...gen.Part) error         { return w.do(ctx) }
func (w workshop) Lines(ctx context.Context, _ gen.Part) (iter.Seq[string], error) {
	return w.lines, w.do(ctx)
}
func (w workshop) Open(ctx context.Context, _ gen.Part) (io.ReadWriteCloser, error) {
	return w.file, w.do(ctx)
}
func (w workshop) Assemble(ctx context.Context, _ gen.Part, _ string, _ ...string) error {
	return w.do(ctx)
}

// elsewhere is the fallback when other callers have all permits.
type elsewhere struct{ workshop }

func (elsewhere) Help(context.Context, gen.Part) (string, error) { return "elsewhere", nil }

// works wraps w in a replica of its own.
func works(t *testing.T, w workshop, opts ...lockrt.LockOption) (*gen.LockedWorkshop, *lockrt.Client) {
	t.Helper()
	if w.do == nil {
		w.do = nothing
	}
	c := newReplica(t, nothing).locks
	return gen.NewLockedWorkshop(w, elsewhere{workshop{do: nothing}}, c, opts...), c
}

// newPart returns a part that no other test has. The test deletes what Redis keeps of its
// semaphore.
func newPart(t *testing.T) gen.Part {
	t.Helper()
	part := gen.Part(redistest.Key(t, "part"))
	t.Cleanup(func() { redistest.Shared(t).Do("DEL", workerKey(t, part)) })
	return part
}

func workerKey(t *testing.T, part gen.Part) string {
	t.Helper()
	key, err := gen.WorkshopKeys{}.Work(part)
	require.NoError(t, err)
	return key
}

// taken counts the permits of a part that are in use.
func taken(t *testing.T, part gen.Part) int {
	t.Helper()
	n, err := newReplica(t, nothing).locks.PermitSemaphore(workerKey(t, part), 2).Acquired(patient(t))
	require.NoError(t, err)
	return n
}

// meanwhile calls fn in another goroutine and returns a channel with its error.
func meanwhile(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// comes waits until the condition holds.
func comes(t *testing.T, what string, holds func() bool) {
	t.Helper()
	over := patient(t)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-over.Done():
			require.FailNow(t, "waited too long until "+what)
		}
	}
}

// TestWorkshop_Fair shows that calls of several processes are served in the order in which they
// asked.
func TestWorkshop_Fair(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	server := redistest.Shared(t)
	key, err := gen.WorkshopKeys{}.Turn(part)
	require.NoError(t, err)
	desk := gen.NewDesks(newReplica(t, nothing).locks).Desk(part)
	held, err := desk.Lock(patient(t))
	require.NoError(t, err)
	require.Positive(t, held.Token(), "fence")

	type call struct {
		who   int
		token int64
	}
	const n = 6
	served := make(chan call, n)
	var done []<-chan error
	replicas := make([]*gen.LockedWorkshop, n)
	for i := range replicas {
		replicas[i], _ = works(t, workshop{do: func(ctx context.Context) error {
			token, _ := lockrt.TokenFrom(ctx)
			served <- call{i, token}
			return nil
		}})
		done = append(done, meanwhile(func() error { return replicas[i].Turn(patient(t), part) }))
		comes(t, "it stands in the queue", func() bool {
			length, err := server.Do("LLEN", "redisson_lock_queue:{"+key+"}").AsInt64()
			require.NoError(t, err)
			return length == int64(i+1)
		})
	}
	require.NoError(t, replicas[0].Try(patient(t), part), "busy=skip: somebody waits")
	require.Empty(t, served)
	require.NoError(t, held.Unlock(patient(t)))
	last := held.Token()
	for i := range n {
		got := receive(t, served, "the next")
		require.Equal(t, i, got.who)
		require.Greater(t, got.token, last, "tokens rise")
		last = got.token
		require.NoError(t, receive(t, done[i], "the call"))
	}
	require.NoError(t, replicas[0].Try(patient(t), part))
	require.Equal(t, 0, receive(t, served, "the call that tries").who)
	server.Do("DEL", "redisson_lock_token:{"+key+"}")
	left, err := server.Do("KEYS", "*"+key+"*").AsStrSlice()
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestWorkshop_FairWhoGivesUp shows that a caller that gives up leaves the queue, and the others
// keep their order.
func TestWorkshop_FairWhoGivesUp(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	server := redistest.Shared(t)
	key, err := gen.WorkshopKeys{}.Turn(part)
	require.NoError(t, err)
	var waiting []<-chan error
	first, c := works(t, workshop{})
	lease, err := c.FairMutex(key).Lock(patient(t))
	require.NoError(t, err)
	second, _ := works(t, workshop{})
	ctx, cancel := context.WithCancel(patient(t))
	queue := func() int64 {
		n, err := server.Do("LLEN", "redisson_lock_queue:{"+key+"}").AsInt64()
		require.NoError(t, err)
		return n
	}
	for i, call := range []func() error{
		func() error { return first.Turn(ctx, part) },
		func() error { return second.Turn(patient(t), part) },
	} {
		waiting = append(waiting, meanwhile(call))
		comes(t, "it stands in the queue", func() bool { return queue() == int64(i+1) })
	}
	cancel()
	require.ErrorIs(t, receive(t, waiting[0], "the call that gives up"), context.Canceled)
	comes(t, "it has left the queue", func() bool { return queue() == 1 })
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, receive(t, waiting[1], "the other"))
	server.Do("DEL", "redisson_lock_token:{"+key+"}")
}

// TestWorkshop_NeverMoreThanPermits shows that calls of several processes, through all methods that take the permits,
// never exceed them.
func TestWorkshop_NeverMoreThanPermits(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	var inside, most atomic.Int32
	both := make(chan struct{}, 1)
	do := func(context.Context) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n == 2 {
			select {
			case both <- struct{}{}:
			default:
			}
		}
		runtime.Gosched()
		return nil
	}
	var done []<-chan error
	for range 3 {
		w, _ := works(t, workshop{do: do, lines: func(func(string) bool) { _ = do(context.Background()) }})
		for range 3 {
			done = append(done, meanwhile(func() error {
				for range 40 {
					if err := w.Work(patient(t), part); err != nil {
						return err
					}
					if err := w.All(patient(t), part, part); err != nil {
						return err
					}
					lines, err := w.Lines(patient(t), part)
					if err != nil {
						return err
					}
					for range lines {
					}
				}
				return nil
			}))
		}
	}
	for _, d := range done {
		require.NoError(t, receive(t, d, "the calls"))
	}
	receive(t, both, "two to be inside at once")
	require.EqualValues(t, 2, most.Load())
	require.Zero(t, taken(t, part))
}

func TestWorkshop_BusyPermits(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	w, c := works(t, workshop{})
	got, err := w.Help(patient(t), part)
	require.NoError(t, err)
	require.Equal(t, "next", got)
	p, err := c.PermitSemaphore(workerKey(t, part), 2).AcquireN(patient(t), 2)
	require.NoError(t, err)
	got, err = w.Help(patient(t), part)
	require.NoError(t, err)
	require.Equal(t, "elsewhere", got)
	_, err = w.Help(patient(t), "")
	require.EqualError(t, err, "generatedtest.Workshop.Help: of is empty", "other failures are told")
	hurried, _ := works(t, workshop{}, lockrt.WithWait(20*time.Millisecond))
	err = hurried.Work(patient(t), part)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, `generatedtest.Workshop.Work: lockgen: acquire "`)
	ctx, cancel := context.WithCancel(patient(t))
	waiting := meanwhile(func() error { return w.Work(ctx, part) })
	comes(t, "it waits", func() bool { return c.Stats().Waiting == 1 })
	cancel()
	require.ErrorIs(t, receive(t, waiting, "the call"), context.Canceled)
	waiting = meanwhile(func() error { return w.Work(patient(t), part) })
	comes(t, "it waits", func() bool { return c.Stats().Waiting == 1 })
	require.NoError(t, p.Release(patient(t)))
	require.NoError(t, receive(t, waiting, "its turn"))
	require.Zero(t, taken(t, part))
}

func TestWorkshop_GivesBackWhateverHappens(t *testing.T) {
	t.Parallel()
	part, own := newPart(t), errors.New("out of wood")
	w, _ := works(t, workshop{do: func(context.Context) error { return own }})
	require.ErrorIs(t, w.Work(patient(t), part), own)
	w, _ = works(t, workshop{do: func(context.Context) error { panic("bug") }})
	require.PanicsWithValue(t, "bug", func() { _ = w.Work(patient(t), part) })
	require.PanicsWithValue(t, "bug", func() { _, _ = w.Open(patient(t), part) })
	require.PanicsWithValue(t, "bug", func() { _ = w.Assemble(patient(t), part, string(part), string(part)+"2") })
	w, _ = works(t, workshop{do: func(context.Context) error { runtime.Goexit(); return nil }})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Work(patient(t), part)
	}()
	receive(t, ended, "the goroutine to end")
	require.Zero(t, taken(t, part))
}

// TestWorkshop_LostPermit shows that a lost permit ends the context of the call, or is only
// reported.
func TestWorkshop_LostPermit(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	key := workerKey(t, part)
	server := redistest.Shared(t)
	gone := func() { server.Do("DEL", key, "{"+key+"}:timeout") }
	w, _ := works(t, workshop{do: func(ctx context.Context) error {
		gone()
		receive(t, ctx.Done(), "the call's context to end")
		require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
		return nil
	}}, lockrt.WithWatchdog(time.Second))
	require.ErrorIs(t, w.Work(patient(t), part), lockrt.ErrLost, "although the method returned nil")

	var c *lockrt.Client
	w, c = works(t, workshop{do: func(ctx context.Context) error {
		gone()
		comes(t, "the loss is noticed", func() bool { return c.Stats().Losses > 0 })
		return ctx.Err()
	}})
	err := w.All(patient(t), part)
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.NotErrorIs(t, err, context.Canceled, "its context went on")
}

func TestWorkshop_Streams(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	w, _ := works(t, workshop{
		lines: func(yield func(string) bool) { _ = yield("a") && yield("b") },
		file:  &file{},
	})
	lines, err := w.Lines(patient(t), part)
	require.NoError(t, err)
	f, err := w.Open(patient(t), part)
	require.NoError(t, err)
	require.Equal(t, 2, taken(t, part))
	got, err := w.Help(patient(t), part)
	require.NoError(t, err)
	require.Equal(t, "elsewhere", got)
	for range lines {
		break
	}
	require.Equal(t, 1, taken(t, part))
	require.NoError(t, f.Close())
	require.Zero(t, taken(t, part))
	ctx, cancel := context.WithCancel(patient(t))
	_, err = w.Lines(ctx, part)
	require.NoError(t, err)
	require.Equal(t, 1, taken(t, part))
	cancel()
	comes(t, "what nobody goes through is given back", func() bool { return taken(t, part) == 0 })
}

// TestWorkshop_Mixed takes locks of all kinds at once, or none.
func TestWorkshop_Mixed(t *testing.T) {
	t.Parallel()
	part := newPart(t)
	name := redistest.Key(t, "name")
	keys, err := gen.WorkshopKeys{}.Assemble(part, name, name+"1", name+"2")
	require.NoError(t, err)
	require.Equal(t, []rtgen.KindKey{
		{Kind: lockrt.KindMutex, Key: keys[0].Key, Fence: true},
		{Kind: lockrt.KindRead, Key: keys[1].Key},
		{Kind: lockrt.KindWrite, Key: keys[2].Key},
		{Kind: lockrt.KindWrite, Key: keys[3].Key},
		{Kind: lockrt.KindFair, Key: keys[4].Key},
		{Kind: lockrt.KindPermit, Permits: 2, Key: workerKey(t, part)},
	}, keys)
	other := newReplica(t, nothing).locks
	outside, configs := gen.NewDesks(other), gen.NewLockedConfig(config{nothing}, other)
	called := 0
	w, c := works(t, workshop{do: func(ctx context.Context) error {
		called++
		token, ok := lockrt.TokenFrom(ctx)
		require.True(t, ok)
		of, ok := lockrt.TokenOf(ctx, keys[0].Key)
		require.True(t, ok)
		require.Equal(t, of, token, "only the first lock has one")
		_, err := other.Mutex(keys[0].Key).TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.NoError(t, configs.Get(patient(t), name), "many read")
		require.ErrorIs(t, configs.Set(patient(t), name), lockrt.ErrNotAcquired)
		require.ErrorIs(t, configs.Get(patient(t), name+"2"), lockrt.ErrNotAcquired)
		_, err = outside.Desk(part).Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.Equal(t, 1, taken(t, part))
		return nil
	}}, lockrt.WithWait(0))
	require.NoError(t, w.Assemble(patient(t), part, name, name+"1", name+"2"))
	require.Equal(t, 1, called)
	require.Zero(t, c.Stats().Held)
	require.NoError(t, w.Assemble(patient(t), part, name, name+"2", name+"1", name+"2"))

	block, err := outside.Desk(part).Lock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, w.Assemble(patient(t), part, name, name+"1"), lockrt.ErrNotAcquired)
	require.NoError(t, block.Unlock(patient(t)))
	comes(t, "nothing is held", func() bool { return c.Stats().Held == 0 })
	require.Equal(t, 2, called)
	for _, k := range keys {
		redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+k.Key+"}")
	}
}
