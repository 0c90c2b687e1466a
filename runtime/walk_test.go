package lockrt_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A stroll calls all methods of things, with arguments that make sense.
type stroll struct {
	ctx    context.Context
	key    string
	option bool // with an option that is nil
	idle   bool // with a function that is nil
}

// args returns what to call a method with.
func (w stroll) args(method reflect.Type) []reflect.Value {
	var args []reflect.Value
	for i := range method.NumIn() {
		if method.IsVariadic() && i == method.NumIn()-1 && method.In(i) != reflect.TypeFor[[]string]() {
			if w.option {
				args = append(args, reflect.Zero(method.In(i).Elem()))
			}
			break
		}
		args = append(args, w.value(method.In(i)))
	}
	return args
}

func (w stroll) value(t reflect.Type) reflect.Value {
	switch {
	case t == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(&w.ctx).Elem()
	case t == reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(time.Second)
	case t == reflect.TypeFor[*gen.Spec]():
		return reflect.ValueOf(&gen.Spec{Name: "n", Wait: lockrt.UntilDone})
	case t == reflect.TypeFor[*error]():
		return reflect.ValueOf(new(error))
	case t == reflect.TypeFor[[]string]():
		return reflect.ValueOf(strings.Repeat("0a", 16))
	case t.Kind() == reflect.String:
		return reflect.ValueOf(strings.Repeat("0a", 16)).Convert(t)
	case t.Kind() == reflect.Int:
		return reflect.ValueOf(1)
	case t.Kind() == reflect.Func && !w.idle:
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
			return []reflect.Value{reflect.Zero(reflect.TypeFor[error]())}
		})
	}
	return reflect.Zero(t)
}

// fails calls all methods of things that return an error, and has look look at what each returned.
func (w stroll) fails(things []any, look func(name string, call func() error)) {
	for _, thing := range things {
		v := reflect.ValueOf(thing)
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			method := v.Method(i).Type()
			if n := method.NumOut(); n == 0 || method.Out(n-1) != reflect.TypeFor[error]() {
				continue
			}
			look(fmt.Sprintf("(%T).%s", thing, m.Name), func() error {
				out := v.Method(i).Call(w.args(method))
				err, _ := out[len(out)-1].Interface().(error)
				return err
			})
		}
	}
}

// the locks of a client, or of three.
func (w stroll) makes(t *testing.T, c ...*lockrt.Client) []any {
	t.Helper()
	red := lockrt.NewRedLock(w.key, c)
	return []any{
		c[0].Mutex(w.key), c[0].FairMutex(w.key + ":fair"), c[0].RWMutex(w.key + ":rw"), c[0].RWMutex(w.key + ":r").RLocker(),
		c[0].Semaphore(w.key+":s", 1), c[0].PermitSemaphore(w.key+":p", 1), c[0].CountDownLatch(w.key + ":l"),
		lockrt.NewMultiLock(c[0].Mutex(w.key+":1"), c[0].Mutex(w.key+":2")), red,
	}
}

// An asker has the methods of a client that ask, without those that close it.
type asker struct{ c *lockrt.Client }

func (a asker) Fleet(ctx context.Context, key string) error {
	_, err := a.c.Fleet(ctx, key)
	if err == nil {
		err = ctx.Err() // nobody answered until then
	}
	return err
}

func (a asker) ProcessOf(ctx context.Context, id string) error {
	_, _, err := a.c.ProcessOf(ctx, id)
	return err
}

// TestEveryCallEndsWithItsContext: with a server that says nothing, each method that takes a context returns when that ends, but
// those that run to their end.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	toTheEnd := []string{").Unlock", ").Release", ").ReleaseIfExists", ").CountDown", ").Resign"}
	var clients []*lockrt.Client
	var proxies []*redistest.FaultProxy
	for range 3 {
		proxy := redistest.Proxy(t, redistest.Server(t).Addr())
		rc, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{proxy.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
			ConnWriteTimeout: 10 * patience, // else it would be that which ends the call
		})
		require.NoError(t, err)
		t.Cleanup(rc.Close)
		c, err := lockrt.New(rc, lockrt.Options{OpTimeout: time.Minute})
		require.NoError(t, err)
		clients, proxies = append(clients, c), append(proxies, proxy)
	}
	w := stroll{ctx: t.Context(), key: redistest.Key(t, "k")}
	lease, err := clients[0].Mutex(w.key + ":held").Lock(patient(t))
	require.NoError(t, err)
	permit, err := clients[0].PermitSemaphore(w.key+":permit", 1).Acquire(patient(t))
	require.NoError(t, err)
	whole, err := lockrt.NewMultiLock(clients[0].Mutex(w.key+":x"), clients[1].Mutex(w.key+":y")).Lock(patient(t))
	require.NoError(t, err)
	leadership, err := clients[0].Election(w.key+":leads").Campaign(patient(t), "v")
	require.NoError(t, err)
	current, ok := lockrt.LeaseFrom(lease.Context())
	require.True(t, ok)
	schedule := clients[0].Every(w.key+":every", time.Second, func(context.Context, lockrt.Tick) error { return nil })
	things := append(w.makes(t, clients...), lease, permit, whole, clients[0].Election(w.key+":election"), leadership, current, schedule, asker{clients[0]})
	for _, proxy := range proxies {
		proxy.Blackhole(redistest.Both)
	}
	type outcome struct {
		name string
		err  error
	}
	calls, outcomes := 0, make(chan outcome, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	w.fails(things, func(name string, call func() error) {
		for _, not := range toTheEnd {
			if strings.HasSuffix(name, not) {
				return
			}
		}
		if strings.HasSuffix(name, ").Err") {
			return
		}
		calls++
		go func() { outcomes <- outcome{name, call()} }()
	})
	require.Greater(t, calls, 50)
	pending := map[string]bool{}
	time.AfterFunc(200*time.Millisecond, cancel)
	for range calls {
		select {
		case o := <-outcomes:
			pending[o.name] = true
			require.Error(t, o.err, o.name)
			if !strings.Contains(o.name, "Acquire") { // tries beside others may be refused
				t.Log(o.name, o.err)
			}
		case <-patient(t).Done():
			w.fails(things, func(name string, _ func() error) {
				if !pending[name] {
					t.Log("has not returned, or was not called: ", name)
				}
			})
			t.Fatal("a call does not end with its context")
		}
	}
	for _, proxy := range proxies {
		proxy.Deliver()
	}
	for _, c := range clients {
		_ = c.Close()
	}
}
