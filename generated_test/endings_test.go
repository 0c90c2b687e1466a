package generatedtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// endings is the service behind the wrapper: every method calls do.
type endings struct {
	gen.Endings // a method that the test does not set panics

	do    func(ctx context.Context) error
	name  string
	rows  iter.Seq2[int, error]
	lines iter.Seq[string]
	file  io.ReadWriteCloser
}

func (e endings) Get(ctx context.Context, _ string) (string, error) { return e.name, e.do(ctx) }
func (e endings) Once(ctx context.Context, _ string) error          { return e.do(ctx) }
func (e endings) Soon(ctx context.Context, _ string) error          { return e.do(ctx) }
func (e endings) Peek(ctx context.Context, _ string) (string, error) {
	return e.name, e.do(ctx)
}
func (e endings) Slow(ctx context.Context, _ string) error     { return e.do(ctx) }
func (e endings) Stubborn(ctx context.Context, _ string) error { return e.do(ctx) }
func (e endings) Rows(ctx context.Context, _ string) (int, iter.Seq2[int, error], error) {
	return 2, e.rows, e.do(ctx)
}
func (e endings) Lines(ctx context.Context, _ string) (iter.Seq[string], error) {
	return e.lines, e.do(ctx)
}
func (e endings) Open(ctx context.Context, _ string) (io.ReadWriteCloser, error) {
	return e.file, e.do(ctx)
}
func (e endings) Close() error { return e.do(context.Background()) }

// ends wraps e in a replica of its own.
func ends(t *testing.T, e endings, opts ...lockrt.LockOption) (*gen.LockedEndings, *lockrt.Client) {
	t.Helper()
	if e.do == nil {
		e.do = nothing
	}
	c := newReplica(t, nothing).locks
	return gen.NewLockedEndings(e, endings{name: "fallback", do: nothing}, c, opts...), c
}

// endingsKey is the key of an id.
func endingsKey(t *testing.T, id string) string {
	key, err := gen.EndingsKeys{}.Get(id)
	require.NoError(t, err)
	return key
}

func TestEndings_BusyFallback(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	s, c := ends(t, endings{name: "next"})
	got, err := s.Get(patient(t), id)
	require.NoError(t, err)
	require.Equal(t, "next", got)
	lease, err := c.Mutex(endingsKey(t, id)).Lock(patient(t))
	require.NoError(t, err)
	got, err = s.Get(patient(t), id)
	require.NoError(t, err)
	require.Equal(t, "fallback", got)
	require.NoError(t, lease.Unlock(patient(t)))
	_, err = s.Get(patient(t), "")
	require.EqualError(t, err, "generatedtest.Endings.Get: id is empty", "other failures are told")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Get(ctx, id)
	require.ErrorIs(t, err, context.Canceled)
}

func TestEndings_Keep(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	called := 0
	do := func(context.Context) error { called++; return nil }
	s, c := ends(t, endings{do: do})
	other, _ := ends(t, endings{do: do})
	require.NoError(t, s.Once(patient(t), id))
	require.NoError(t, s.Once(patient(t), id))
	require.NoError(t, other.Once(patient(t), id))
	require.Equal(t, 1, called)
	was, err := c.Mutex(endingsKey(t, id)).ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, was)
	require.NoError(t, other.Once(patient(t), id))
	require.Equal(t, 2, called)
	_, err = c.Mutex(endingsKey(t, id)).ForceUnlock(patient(t))
	require.NoError(t, err)
}

func TestEndings_Min(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	s, _ := ends(t, endings{})
	other, _ := ends(t, endings{})
	began := time.Now()
	require.NoError(t, s.Slow(patient(t), id))
	require.NoError(t, other.Stubborn(patient(t), id))
	require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond)
	freed(t, endingsKey(t, id))
}

func TestEndings_LostReport(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	var c *lockrt.Client
	s, c := ends(t, endings{do: func(ctx context.Context) error {
		token, ok := lockrt.TokenFrom(ctx)
		require.True(t, ok)
		require.Positive(t, token)
		_, err := c.Mutex(endingsKey(t, id)).ForceUnlock(ctx)
		require.NoError(t, err)
		return ctx.Err()
	}})
	err := s.Stubborn(patient(t), id)
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.NotErrorIs(t, err, context.Canceled, "its context went on")
}

func TestEndings_OptionsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	s, c := ends(t, endings{}, lockrt.WithWait(0), lockrt.WithLease(time.Hour))
	lease, err := c.Mutex(endingsKey(t, id)).Lock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, s.Slow(patient(t), id), lockrt.ErrNotAcquired)
	require.NoError(t, lease.Unlock(patient(t)))

	locks := gen.NewLocks(c, lockrt.WithWait(0))
	order := newID(t)
	first, err := locks.Order(order).Lock(patient(t))
	require.NoError(t, err)
	_, err = locks.Order(order).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, first.Unlock(patient(t)))
}

func TestEndings_Iter(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	own := errors.New("row 2")
	s, c := ends(t, endings{
		rows:  func(yield func(int, error) bool) { _ = yield(1, nil) && yield(2, own) },
		lines: func(yield func(string) bool) { _ = yield("a") && yield("b") },
	})
	n, rows, err := s.Rows(patient(t), id)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.EqualValues(t, 1, held(t, endingsKey(t, id)), "it is held until the loop ends")
	got := 0
	for i, err := range rows {
		got += i
		require.Equal(t, i == 2, errors.Is(err, own))
		_, err = c.Mutex(endingsKey(t, id)).TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	}
	require.Equal(t, 3, got)
	freed(t, endingsKey(t, id))
	for _, err := range rows {
		require.ErrorIs(t, err, lockrt.ErrReleased, "once")
		require.ErrorContains(t, err, "generatedtest.Endings.Rows: ")
	}

	for _, loop := range map[string]func(lines iter.Seq[string]){
		"break": func(lines iter.Seq[string]) {
			for range lines {
				break
			}
		},
		"panic": func(lines iter.Seq[string]) {
			require.PanicsWithValue(t, "bug", func() {
				for range lines {
					panic("bug")
				}
			})
		},
	} {
		lines, err := s.Lines(patient(t), id)
		require.NoError(t, err)
		require.EqualValues(t, 1, held(t, endingsKey(t, id)))
		loop(lines)
		freed(t, endingsKey(t, id))
	}
}

// TestEndings_Nothing shows that a method that fails, or returns nothing to close, releases its
// lock at once.
func TestEndings_Nothing(t *testing.T) {
	t.Parallel()
	id, own := redistest.Key(t, "id"), errors.New("no such table")
	failing, _ := ends(t, endings{
		do:    func(context.Context) error { return own },
		lines: func(func(string) bool) { require.Fail(t, "without its lock") },
		file:  &file{},
	})
	_, err := failing.Lines(patient(t), id)
	require.ErrorIs(t, err, own)
	_, err = failing.Open(patient(t), id)
	require.ErrorIs(t, err, own)
	freed(t, endingsKey(t, id))
	empty, _ := ends(t, endings{})
	lines, err := empty.Lines(patient(t), id)
	require.NoError(t, err)
	require.Nil(t, lines)
	f, err := empty.Open(patient(t), id)
	require.NoError(t, err)
	require.Nil(t, f)
	freed(t, endingsKey(t, id))
	panicking, _ := ends(t, endings{do: func(context.Context) error { panic("bug") }})
	require.PanicsWithValue(t, "bug", func() { _, _ = panicking.Open(patient(t), id) })
	require.PanicsWithValue(t, "bug", func() { _, _ = panicking.Lines(patient(t), id) })
	freed(t, endingsKey(t, id))
}

// A file is in memory.
type file struct {
	bytes.Buffer

	closed int
	err    error
}

func (f *file) Close() error { f.closed++; return f.err }

func TestEndings_Close(t *testing.T) {
	t.Parallel()
	id := redistest.Key(t, "id")
	inner := &file{err: errors.New("disk full")}
	s, c := ends(t, endings{file: inner})
	f, err := s.Open(patient(t), id)
	require.NoError(t, err)
	_, err = f.Write([]byte("abc"))
	require.NoError(t, err)
	got := make([]byte, 3)
	_, err = io.ReadFull(f, got)
	require.NoError(t, err)
	require.Equal(t, "abc", string(got))
	require.EqualValues(t, 1, held(t, endingsKey(t, id)))
	require.ErrorIs(t, f.Close(), inner.err)
	freed(t, endingsKey(t, id))
	require.Equal(t, inner.err, f.Close(), "as it is the second time")
	require.Equal(t, 2, inner.closed)

	inner.err = nil
	f, err = s.Open(patient(t), id)
	require.NoError(t, err)
	_, err = c.Mutex(endingsKey(t, id)).ForceUnlock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, f.Close(), lockrt.ErrLost)
}

// TestEndings_Method shows that the directive of an embedded method stands above the interface.
func TestEndings_Method(t *testing.T) {
	t.Parallel()
	s, _ := ends(t, endings{do: func(context.Context) error {
		require.EqualValues(t, 1, held(t, gen.EndingsKeys{}.Close()))
		return nil
	}})
	require.NoError(t, s.Close())
}
