package lockrt_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// nothings are the zero values and nil pointers of all types that have methods, and what a client makes that is none.
func nothings() []any {
	var none *lockrt.Client
	all := []any{
		lockrt.CurrentLease{}, lockrt.Held[string]{}, lockrt.HeldShared[string]{}, lockrt.HeldPermit[string]{}, lockrt.HeldMulti[string]{},
		lockrt.EntityLease[lockrt.Held[string]]{}, lockrt.EntityPermit[string]{}, lockrt.EntityMutex[string]{}, lockrt.EntityFairMutex[string]{},
		lockrt.EntityRWMutex[string]{}, lockrt.EntitySemaphore[string]{}, lockrt.EntityMulti[string]{}, gen.Acquirer{}, lockrt.Backoff{},
		lockrt.NewMultiLock(), lockrt.NewMultiLock(nil), lockrt.NewRedLock("k", nil), gen.With(nil), gen.Quorum(nil),
		none, (*lockrt.Mutex)(nil), (*lockrt.FairMutex)(nil), (*lockrt.RWMutex)(nil), (*lockrt.Semaphore)(nil), (*lockrt.PermitSemaphore)(nil),
		(*lockrt.CountDownLatch)(nil), (*lockrt.RedLock)(nil), (*lockrt.MultiLock)(nil), (*lockrt.Lease)(nil), (*lockrt.Permit)(nil),
		new(lockrt.Mutex), new(lockrt.FairMutex), new(lockrt.RWMutex), new(lockrt.Semaphore), new(lockrt.PermitSemaphore),
		new(lockrt.CountDownLatch), new(lockrt.RedLock), new(lockrt.MultiLock), new(lockrt.Lease), new(lockrt.Permit), new(lockrt.Client),
		(*lockrt.Election)(nil), (*lockrt.Leadership)(nil), (*lockrt.Schedule)(nil), new(lockrt.Election), new(lockrt.Leadership), new(lockrt.Schedule),
		new(lockrt.Error), new(lockrt.KeyError),
		gen.For(none, &gen.Spec{}, "", "k", nil), gen.ForMulti(none, &gen.Spec{}, []string{"a", "b"}, []string{"a", "b"}, nil),
	}
	for _, c := range []*lockrt.Client{none, new(lockrt.Client)} {
		all = append(all, c.Mutex("k"), c.FairMutex("k"), c.RWMutex("k"), c.RWMutex("k").RLocker(), (*lockrt.RWMutex)(nil).RLocker(), c.Semaphore("k", 1),
			c.PermitSemaphore("k", 1), c.CountDownLatch("k"), lockrt.NewRedLock("k", []*lockrt.Client{c, c, c}), c.Election("k"), c.Every("k", time.Second, nil), lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")),
			lockrt.NewMultiLock(c.Mutex("k"), c.RWMutex("l"), c.RWMutex("m").RLocker()),
			lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("k")))
	}
	return all
}

// calls calls all methods of things, and has look look at each with the error that it returned, if it returns any.
func (w stroll) calls(things []any, look func(name string, returns bool, call func() error)) {
	for _, thing := range things {
		v := reflect.ValueOf(thing)
		for i := range v.NumMethod() {
			method := v.Method(i).Type()
			n := method.NumOut()
			returns := n > 0 && method.Out(n-1) == reflect.TypeFor[error]()
			look("("+v.Type().String()+")."+v.Type().Method(i).Name, returns, func() error {
				out := v.Method(i).Call(w.args(method))
				if !returns {
					return nil
				}
				err, _ := out[n-1].Interface().(error)
				return err
			})
		}
	}
}

// TestNothing: what is nil, or zero, says so in each of its methods, and none of them panics.
func TestNothing(t *testing.T) {
	t.Parallel()
	w := stroll{ctx: t.Context(), key: "k"}
	w.calls(nothings(), func(name string, returns bool, call func() error) {
		assert.NotPanics(t, func() {
			err := call()
			switch {
			case !returns || strings.HasSuffix(name, "Error).Unwrap"):
			case strings.HasPrefix(name, "(lockrt.Held"):
				assert.ErrorIs(t, err, lockrt.ErrReleased, name)
			case strings.HasSuffix(name, ".AcquireKinds"): // of no keys
				assert.ErrorAs(t, err, new(*lockrt.KeyError), name)
			case err == nil && (strings.HasSuffix(name, ".Key") || strings.HasSuffix(name, ".Keys")): // it has a key, and no client
			case assert.ErrorIs(t, err, lockrt.ErrBadOption, name):
				assert.Regexp(t, "there is no |is nil|a red lock of 0 servers", err.Error(), name)
			}
		}, name)
	})
	_, err := lockrt.EntityMutex[string]{}.Key()
	require.EqualError(t, err, "lockgen: unusable option: there is no entity")
	_, err = lockrt.EntityMulti[string]{}.Keys()
	require.EqualError(t, err, "lockgen: unusable option: there is no entity")
	_, err = lockrt.New(nil, lockrt.Options{})
	require.EqualError(t, err, "lockgen: new client: unusable option: there is no connection")
}

// TestNothing_IsOfEachType: the table has each exported type of the package that has methods.
func TestNothing_IsOfEachType(t *testing.T) {
	t.Parallel()
	has := map[string]bool{
		"Kind": true, "Key": true, // strings
	}
	for _, thing := range nothings() {
		typ := reflect.TypeOf(thing)
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		name, _, _ := strings.Cut(typ.Name(), "[")
		has[name] = true
	}
	for _, file := range sources(t) {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			if of := receiver(fn.Recv.List[0].Type); ast.IsExported(of) && takesContext(fn) {
				assert.True(t, has[of], "%s.%s: put the zero value of %s into nothings", of, fn.Name, of)
			}
		}
	}
}

// receiver names the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// takesContext reports whether a function can contact Redis.
func takesContext(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(f *ast.Field) bool {
		sel, ok := f.Type.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Context"
	})
}

// TestNothing_NoContext: a context that is nil is an error of each call that would end with it, before anything is
// sent. A call that runs to its end in any case, such as Unlock, uses its context for values alone, and needs none.
func TestNothing_NoContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	w := stroll{ctx: t.Context(), key: redistest.Key(t, "k")}
	id := func(name string) (string, string) { return name, w.key + name }
	lease, err := c.Mutex(w.key + ":held").Lock(patient(t))
	require.NoError(t, err)
	permit, err := c.PermitSemaphore(w.key+":permit", 1).Acquire(patient(t))
	require.NoError(t, err)
	leadership, err := c.Election(w.key+":leads").Campaign(patient(t), "v")
	require.NoError(t, err)
	current, ok := lockrt.LeaseFrom(lease.Context())
	require.True(t, ok)
	one, key := id("e")
	spec := &gen.Spec{Name: "n"}
	things := []any{
		c.Mutex(w.key), c.FairMutex(w.key + ":fair"), c.RWMutex(w.key + ":rw"), c.RWMutex(w.key + ":r").RLocker(), c.Semaphore(w.key+":s", 1),
		c.PermitSemaphore(w.key+":p", 1), c.CountDownLatch(w.key + ":l"), lockrt.NewMultiLock(c.Mutex(w.key+":1"), c.Mutex(w.key+":2")),
		lockrt.NewMultiLock(c.Mutex(w.key+":1"), c.RWMutex(w.key+":2")), lockrt.RedLockOf(c.Mutex(w.key+":3"), newClient(t, lockrt.Options{}).Mutex(w.key+":3")),
		gen.For(c, spec, one, key, nil), gen.ForFair(c, spec, one, key, nil), gen.ForRW(c, spec, one, key, nil), gen.ForPermits(c, spec, 1, one, key, nil),
		gen.ForMulti(c, spec, []string{one}, []string{key}, nil), gen.With(c), lease, permit,
		c, c.Election(w.key + ":e"), c.Every(w.key+":v", time.Second, func(context.Context, lockrt.Tick) error { return nil }), leadership, current,
	}
	anyway := []string{").Close", ").Resign", ").Unlock", ").Release", ").ReleaseIfExists", ").CountDown", ").Err", ").Key", ").Keys"}
	w.ctx = nil
	calls := 0
	w.calls(things, func(name string, returns bool, call func() error) {
		if !returns || slices.ContainsFunc(anyway, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
			return
		}
		calls++
		assert.NotPanics(t, func() {
			err := call()
			if !strings.HasSuffix(name, ".AcquireKinds") { // of no keys
				assert.ErrorIs(t, err, lockrt.ErrBadOption, name)
				assert.ErrorContains(t, err, "there is no context", name)
			}
		}, name)
	})
	require.Greater(t, calls, 60)
	w.calls([]any{lease, permit, c.Semaphore(w.key+":s", 1), c.CountDownLatch(w.key + ":l")}, func(name string, returns bool, call func() error) {
		if strings.HasSuffix(name, ").Unlock") || strings.HasSuffix(name, ").Release") || strings.HasSuffix(name, ").CountDown") {
			assert.NoError(t, call(), name)
		}
	})
	var ctx context.Context
	require.Error(t, c.Shutdown(ctx))
	_, ok = lockrt.LeaseFrom(ctx)
	require.False(t, ok)
	_, ok = lockrt.TokenFrom(ctx)
	require.False(t, ok)
	_, ok = lockrt.TokenOf(ctx, "k")
	require.False(t, ok)
	_, ok = lockrt.OwnerFrom(ctx)
	require.False(t, ok)
	_, err = c.Mutex(w.key).TryLock(lockrt.WithOwner(ctx, lockrt.NewOwner()))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.NoError(t, leadership.Resign(ctx))
	_, err = lockrt.Open(ctx, redistest.Shared(t).URL(), lockrt.Options{})
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	redistest.Shared(t).Do("DEL", w.key+":s", w.key+":p", w.key+":l", w.key+":permit")
}

// TestNothing_NoOption: an option that is nil is an error of the first call, wherever it was given.
func TestNothing_NoOption(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	w := stroll{ctx: t.Context(), key: redistest.Key(t, "k"), option: true}
	var things []any
	for _, opts := range [][]lockrt.LockOption{nil, {nil}, {lockrt.WithWait(time.Second), nil}} {
		if opts != nil {
			w.option = false
		}
		things = []any{
			c.Mutex(w.key, opts...), c.FairMutex(w.key, opts...), c.RWMutex(w.key, opts...), c.RWMutex(w.key, opts...).RLocker(), c.Semaphore(w.key, 1, opts...),
			c.PermitSemaphore(w.key, 1, opts...), c.CountDownLatch(w.key, opts...), lockrt.NewMultiLock(c.Mutex(w.key, opts...), c.Mutex(w.key+"2")),
			lockrt.NewMultiLock(c.Mutex(w.key, opts...), c.RWMutex(w.key+"2")), gen.For(c, &gen.Spec{}, "", w.key, nil, opts...),
		}
		calls := 0
		w.calls(things, func(name string, _ bool, call func() error) {
			method := name[strings.LastIndex(name, ".")+1:]
			if !slices.Contains([]string{"Lock", "TryLock", "RLock", "TryRLock", "Do", "RDo", "Acquire", "TryAcquire", "AcquireN", "TryAcquireN", "Wait"}, method) {
				return
			}
			calls++
			assert.NotPanics(t, func() {
				err := call()
				assert.ErrorIs(t, err, lockrt.ErrBadOption, name)
				assert.ErrorContains(t, err, "an option is nil", name)
			}, name)
		})
		require.Greater(t, calls, 20)
	}
}

// TestNothing_NoFunction: a function that is nil is an error of each method that would call it, before anything is sent.
func TestNothing_NoFunction(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	servers := []*lockrt.Client{c, clientOf(t, redistest.Server(t).URL(), lockrt.Options{}), clientOf(t, redistest.Server(t).URL(), lockrt.Options{})}
	w := stroll{ctx: t.Context(), key: redistest.Key(t, "k"), idle: true}
	one, key := "e", w.key+"e"
	spec := &gen.Spec{Name: "n", Wait: lockrt.UntilDone}
	things := []any{
		c.Mutex(w.key), c.FairMutex(w.key), c.RWMutex(w.key), c.Semaphore(w.key, 1), c.PermitSemaphore(w.key, 1),
		lockrt.NewMultiLock(c.Mutex(w.key), c.Mutex(w.key+"2")), lockrt.NewRedLock(w.key, servers),
		c.Election(w.key), c.Every(w.key, time.Second, nil), gen.For(c, spec, one, key, nil), gen.ForFair(c, spec, one, key, nil),
		gen.ForRW(c, spec, one, key, nil), gen.ForPermits(c, spec, 1, one, key, nil), gen.ForMulti(c, spec, []string{one, "f"}, []string{key, key + "f"}, nil),
	}
	called := map[string]bool{}
	w.calls(things, func(name string, _ bool, call func() error) {
		switch method := name[strings.LastIndex(name, ".")+1:]; method {
		case "Do", "RDo", "Lead", "Run":
			called[method] = true
			assert.NotPanics(t, func() {
				err := call()
				assert.ErrorIs(t, err, lockrt.ErrBadOption, name)
				assert.ErrorContains(t, err, "there is no function", name)
				of := new(lockrt.Error)
				if assert.ErrorAs(t, err, &of, name) {
					assert.Contains(t, of.Key, w.key, name)
				}
			}, name)
		}
	})
	require.Len(t, called, 4)
	for command := range server.CommandStats() {
		require.NotContains(t, command, "eval", "something was sent")
	}
	require.ErrorContains(t, c.Mutex(w.key).Do(t.Context(), nil), `lockgen: do "`+w.key+`": unusable option: there is no function`)
	require.ErrorContains(t, gen.For(c, spec, one, "", &lockrt.KeyError{Reason: "is empty"}).Do(t.Context(), nil), "is empty", "the key is looked at first")
}

// TestNothing_EachFunction: each exported method that takes a function and a context is called by the test above.
func TestNothing_EachFunction(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"Do": true, "RDo": true, "Lead": true, "Every": true}
	found := 0
	for name, file := range sources(t) {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || fn.Recv != nil && !ast.IsExported(receiver(fn.Recv.List[0].Type)) && receiver(fn.Recv.List[0].Type) != "exclusive" {
				continue
			}
			if slices.ContainsFunc(fn.Type.Params.List, func(f *ast.Field) bool { _, ok := f.Type.(*ast.FuncType); return ok }) {
				found++
				assert.True(t, known[fn.Name.Name], "%s of %s takes a function: let TestNothing_NoFunction give it none", fn.Name.Name, name)
			}
		}
	}
	require.Greater(t, found, 10)
}

// sources returns the parsed files of the package by their names, without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		require.NoError(t, err)
		files[name] = file
	}
	return files
}

// TestNothing_OfTwoKinds makes a MultiLock of locks with one key and no client.
func TestNothing_OfTwoKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []*lockrt.Client{nil, new(lockrt.Client)} {
		for _, lock := range []*lockrt.MultiLock{
			lockrt.NewMultiLock(c.Mutex("k"), c.RWMutex("k")), lockrt.NewMultiLock(c.RWMutex("k").RLocker(), c.FairMutex("k")),
			lockrt.NewMultiLock(new(lockrt.Mutex), new(lockrt.FairMutex)),
		} {
			_, err := lock.Lock(t.Context())
			require.ErrorIs(t, err, lockrt.ErrBadOption)
		}
	}
}
