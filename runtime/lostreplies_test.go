package lockrt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file loses the first reply to each method that contacts Redis, and compares what the method does with what it does without the loss.

// A lostRow calls one method in a known state.
type lostRow struct {
	of   func(x *lossy) any      // brings Redis into that state, and returns what has the method, or a function in its place
	args []any                   // after the context; functions are made up
	lose func(cmd []string) bool // matches the request whose reply is lost; nil for the first one that names the key
	asks bool                    // it may answer that it does not know, and is called again then
	here bool                    // it may answer by itself, and send no request
}

// A lossy is one run of a row.
type lossy struct {
	*line

	t         *testing.T
	ctx       context.Context //nolint:containedctx // of the call
	meanwhile func()          // called once the server has the request
	parts     int             // of a lease that is whole, or 0
	back      []func() error  // functions that give back all that is held, in reverse order
}

// run runs a row. It returns the answer of the method, what Redis has then, how everything is given back, and what Redis has in the end. Want
// is what a run without a loss returned.
func (row lostRow) run(t *testing.T, method string, want []string, mode *redistest.Mode) (got []string) {
	t.Helper()
	x := &lossy{line: newQuietLine(t, brisk), t: t, ctx: patient(t)}
	call := x.bind(row.of(x), method, row.args)
	match := row.lose
	if match == nil {
		match = x.namesKey
	}
	sent := x.seen(match)
	drop := &redistest.Drop{}
	if mode != nil {
		drop = x.proxy.DropReply(match, 1, *mode)
	}
	answers := make(chan []reflect.Value, 1)
	go func() { answers <- call() }()
	if row.here {
		answers <- receive(t, answers, "the answer")
	} else {
		receive(t, sent, "the request")
		if mode != nil {
			receive(t, drop.Done(), "the loss")
		}
	}
	if x.meanwhile != nil {
		x.meanwhile()
	}
	said := x.answers(receive(t, answers, "the answer"))
	if row.asks && mode != nil && strings.Contains(said, "unknown") { // it is neither a yes nor a no
		until(t, "it is known", func() bool {
			said = x.answers(call())
			return !strings.Contains(said, "unknown")
		})
		if strings.HasPrefix(method, "Force") && said == "false, nil" {
			said = want[0] // the first call took the key
		}
	}
	got = append(got, said)
	got = append(got, x.settled(got, want))
	for _, give := range slices.Backward(x.back) {
		got = append(got, x.class(give()))
	}
	until(t, "no request that counts is under way", func() bool { return lockrt.Counters(x.client) == 0 })
	got = append(got, x.settled(got, want))
	x.server.Do("DEL", x.key)
	tidy(t, x.client, x.server, x.key)
	until(t, "nothing is held", func() bool { return x.client.Stats().Held == 0 }) // a RedLock gives the last parts back in the background
	return got
}

// namesKey matches the requests with the key of the row, but those to listen.
func (x *lossy) namesKey(cmd []string) bool {
	return !redistest.Command("SUBSCRIBE", "UNSUBSCRIBE")(cmd) && x.names(cmd)
}

// bind returns a call of a method, or of a function.
func (x *lossy) bind(of any, method string, args []any) func() []reflect.Value {
	fn := reflect.ValueOf(of)
	if fn.Kind() != reflect.Func {
		fn = fn.MethodByName(method)
	}
	in := []reflect.Value{}
	for i := range fn.Type().NumIn() {
		switch typ := fn.Type().In(i); {
		case typ == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(x.ctx))
		case typ.Kind() == reflect.Func:
			in = append(in, x.work(typ))
		case len(args) > 0:
			in, args = append(in, reflect.ValueOf(args[0])), args[1:]
		}
	}
	return func() []reflect.Value { return fn.Call(in) }
}

// work returns a function that has to run once.
func (x *lossy) work(typ reflect.Type) reflect.Value {
	runs := 0
	x.back = append(x.back, func() error {
		if runs != 1 {
			return fmt.Errorf("the function ran %d times", runs)
		}
		return nil
	})
	return reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value {
		runs++
		return []reflect.Value{reflect.Zero(typ.Out(0))}
	})
}

// A heldNow is what a call takes that has to be given back.
type heldNow interface{ Err() error }

// answers says what a call returned.
func (x *lossy) answers(all []reflect.Value) string {
	var said []string
	for _, out := range all {
		said = append(said, x.answer(out.Interface()))
	}
	return strings.Join(said, ", ")
}

// answer says what a method returned, and remembers to give it back.
func (x *lossy) answer(out any) string {
	switch out := out.(type) {
	case nil:
		return "nil"
	case error:
		return x.class(out)
	case time.Duration:
		return minutes(out)
	case *lockrt.Client:
		if out != nil {
			x.back = append(x.back, out.Close)
		}
		return "a client"
	case heldNow:
		if v := reflect.ValueOf(out); v.Kind() == reflect.Pointer && v.IsNil() {
			return "nothing"
		}
		x.gives(out)
		x.whole(out)
		return fmt.Sprint("granted: ", out.Err())
	}
	text, err := json.Marshal(out)
	require.NoError(x.t, err)
	return x.plain(string(text))
}

// class says what an error means.
func (x *lossy) class(err error) string {
	if errors.Is(err, io.EOF) || timedOut(err) {
		err = lockrt.ErrUnavailable // of Open
	}
	for _, known := range []error{lockrt.ErrNotAcquired, lockrt.ErrLost, lockrt.ErrReleased, lockrt.ErrClosed, lockrt.ErrUnavailable, context.Canceled} {
		if errors.Is(err, known) {
			return strings.Replace(known.Error(), lockrt.ErrUnavailable.Error(), "unknown", 1)
		}
	}
	return x.plain(fmt.Sprint(err))
}

// gives has what is held be given back in the end.
func (x *lossy) gives(held any) {
	x.back = append(x.back, func() error {
		switch held := held.(type) {
		case interface {
			Unlock(ctx context.Context) error
		}:
			return held.Unlock(x.t.Context())
		case interface {
			Resign(ctx context.Context) error
		}:
			return held.Resign(x.t.Context())
		case interface {
			Release(ctx context.Context) error
		}:
			return held.Release(x.t.Context())
		}
		return errors.ErrUnsupported
	})
}

// takes calls a method of what has it, and returns its lease or permit.
func (x *lossy) takes(of any, method string) any {
	out := x.bind(of, method, nil)()
	require.Nil(x.t, out[1].Interface())
	x.gives(out[0].Interface())
	x.whole(out[0].Interface())
	return out[0].Interface()
}

// whole waits until all servers of a [lockrt.RedLock] have their part.
func (x *lossy) whole(held any) {
	if lease, ok := held.(*lockrt.Lease); ok && x.parts > 0 {
		parts(x.t, lease, x.parts)
	}
}

var (
	moment  = regexp.MustCompile(`\b1\d{12}\b`)                // in milliseconds
	fencing = regexp.MustCompile(`\b0*1\d{15}\b`)              // fencing token
	random  = regexp.MustCompile(`\b[0-9a-f]{32}\b`)           // id of a permit
	thread  = regexp.MustCompile(`<client>:\d+`)               // owner
	other   = regexp.MustCompile(`\b[0-9a-f-]{36}:\d+`)        // owner of another client
	nanos   = regexp.MustCompile(`("(?:TTL|Until)":)(\d{9,})`) // time to live
)

// plain takes out of a text what differs from run to run. Times to come are rounded up to minutes.
func (x *lossy) plain(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, x.key, "<key>"), x.client.ID(), "<client>")
	text = fencing.ReplaceAllString(text, "<token>")
	text = random.ReplaceAllString(thread.ReplaceAllString(text, "<owner>"), "<id>")
	text = other.ReplaceAllString(text, "<other>")
	text = nanos.ReplaceAllStringFunc(text, func(s string) string {
		name, n, _ := strings.Cut(s, ":")
		d, _ := strconv.ParseInt(n, 10, 64)
		return name + ":" + minutes(time.Duration(d))
	})
	return moment.ReplaceAllStringFunc(text, func(ms string) string {
		n, _ := strconv.ParseInt(ms, 10, 64)
		return minutes(time.Until(time.UnixMilli(n)))
	})
}

// minutes rounds up.
func minutes(d time.Duration) string {
	if d < 0 {
		return "<none>"
	}
	return fmt.Sprintf("<%dm>", (d+time.Minute-1)/time.Minute)
}

// settled returns what Redis has of the row, once it is what was to come, or without that, once it does not change.
func (x *lossy) settled(got, want []string) (state string) {
	x.t.Helper()
	same := 0
	x.t.Cleanup(func() {
		if x.t.Failed() {
			x.t.Logf("it has\n%s\nafter %q; a run without a loss: %q", state, got, want)
		}
	})
	until(x.t, "Redis has what is right", func() bool {
		before := state
		state = x.state()
		if len(want) > len(got) {
			return state == want[len(got)]
		}
		if same++; state != before {
			same = 0
		}
		return same == 3
	})
	return state
}

// readKey returns the time to live of a key, and its values or pairs.
const readKey = `local key, left = KEYS[1], {tostring(redis.call('pttl', KEYS[1]))}
local read = ({string = {'get', key}, hash = {'hgetall', key}, zset = {'zrange', key, 0, -1, 'withscores'}, list = {'lrange', key, 0, -1}})[redis.call('type', key).ok]
if not read then return {} end
local values = redis.call(unpack(read))
for _, value in ipairs(type(values) == 'table' and values or {values}) do
  left[#left + 1] = (#value == 16 and value:find('[^%w]')) and '<id>' or value
end
return left`

// state returns what Redis has under all keys that contain the key of the row, but the results of requests, which expire.
func (x *lossy) state() string {
	keys, err := x.server.Do("KEYS", "*"+x.key+"*").AsStrSlice()
	require.NoError(x.t, err)
	var all []string
	for _, key := range keys {
		values, err := x.server.Do("EVAL", readKey, "1", key).AsStrSlice()
		require.NoError(x.t, err)
		if len(values) == 0 || strings.HasPrefix(key, "lockgen_requests:") {
			continue
		}
		ms, _ := strconv.ParseInt(values[0], 10, 64)
		all = append(all, x.plain(fmt.Sprintf("%s = %q for %s", key, values[1:], minutes(time.Duration(ms)*time.Millisecond))))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TestLostReplies: a lost reply changes neither what a method answers nor what it does. Only a method that asks, or that sends its request
// once, may answer that it does not know, and then the next call does.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for name, row := range lossyRows(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, method, _ := strings.Cut(name, ".")
			method, _, _ = strings.Cut(method, " ")
			var want []string
			atBest(t, "did two runs without a loss agree", func() bool { // a slow answer may look like a loss
				before := want
				want = row.run(t, method, nil, nil)
				return slices.Equal(want, before)
			})
			for how, mode := range modes() {
				t.Run(how, func(t *testing.T) {
					t.Parallel()
					require.Equal(t, want, row.run(t, method, want, &mode))
				})
			}
		})
	}
}

// silent are the functions that take a context and send nothing.
var silent = []string{"LeaseFrom", "OwnerFrom", "TokenFrom", "TokenOf", "WithOwner"}

// TestLostReplies_EachMethod: the table has each function and method that takes a context, and may send something.
func TestLostReplies_EachMethod(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for name := range lossyRows(t) {
		name, _, _ = strings.Cut(name, " ")
		rows[name] = true
	}
	var all []string
	for _, thing := range nothings() {
		typ := reflect.TypeOf(thing)
		for i := range typ.NumMethod() {
			if m := typ.Method(i); m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
				all = append(all, methodOf(typ, m.Name))
			}
		}
	}
	for _, file := range sources(t) {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() && takesContext(fn) {
				all = append(all, fn.Name.Name)
			}
		}
	}
	require.Subset(t, all, silent)
	for _, name := range all {
		if !slices.Contains(silent, name) && !strings.HasPrefix(name, "Acquirer.") { // of package gen
			assert.True(t, rows[name], "%s has no row", name)
		}
	}
	require.Greater(t, len(rows), 80)
}

// methodOf names a method by the type that declares it.
func methodOf(typ reflect.Type, method string) string {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Struct && typ.NumField() > 0 {
		embedded := typ.Field(0)
		if _, has := embedded.Type.MethodByName(method); has && embedded.Anonymous && embedded.IsExported() {
			return methodOf(embedded.Type, method)
		}
	}
	name, _, _ := strings.Cut(typ.Name(), "[")
	return name + "." + method
}
