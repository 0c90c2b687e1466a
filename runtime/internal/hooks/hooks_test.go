package hooks

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/observe"
)

// Each hook that panics is logged by its name, and returns what it was given. A hook that is not there is not called.
func TestGuard(t *testing.T) {
	t.Parallel()
	var panicking observe.Hooks
	v := reflect.ValueOf(&panicking).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value { panic("out of order") }))
	}
	var log bytes.Buffer
	guarded := reflect.ValueOf(Guard(panicking, slog.New(slog.NewTextHandler(&log, nil))))
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, 1)
	for i := range guarded.NumField() {
		name, hook := guarded.Type().Field(i).Name, guarded.Field(i)
		args := []reflect.Value{reflect.ValueOf(ctx)}
		if hook.Type().NumIn() == 2 {
			args = append(args, reflect.Zero(hook.Type().In(1)))
		}
		log.Reset()
		results := hook.Call(args)
		line := log.String()
		require.Contains(t, line, "level=ERROR")
		require.Contains(t, line, "hook="+name+" ")
		require.Contains(t, line, "out of order")
		require.Contains(t, line, "hooks_test.go", "where it panicked")
		if len(results) == 1 && name != "TraceParent" {
			require.Equal(t, ctx, results[0].Interface())
		}
	}
	none := reflect.ValueOf(Guard(observe.Hooks{}, slog.New(slog.DiscardHandler)))
	for i := range none.NumField() {
		require.True(t, none.Field(i).IsNil())
	}
}
