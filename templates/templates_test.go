package templates_test

import (
	"go/token"
	"go/types"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/templates"
	"github.com/lockgen/lockgen/templates/model"
)

// file is a service with one method, in a package of its own.
func file(lock *model.Lock) *model.File {
	pkg := types.NewPackage("example.com/a", "a")
	return &model.File{
		Path: pkg.Path(),
		Name: pkg.Name(),
		Services: []*model.Service{{
			Interface:   types.NewTypeName(token.NoPos, pkg, "Service", nil),
			Wrapper:     "LockedService",
			Constructor: "NewLockedService",
			Keys:        "ServiceKeys",
			Methods: []*model.Method{{
				Name:    "Do",
				Params:  []model.Param{{Name: "id", Type: types.Typ[types.Int]}},
				Results: []model.Param{{Type: types.Universe.Lookup("error").Type()}},
				Lock:    lock,
			}},
		}},
	}
}

func TestRender_Durations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		model.UntilDone:           "lockrt.UntilDone",
		0:                         "0",
		1:                         "time.Nanosecond",
		1500:                      "1500 * time.Nanosecond",
		3 * time.Microsecond:      "3 * time.Microsecond",
		1500 * time.Millisecond:   "1500 * time.Millisecond",
		time.Second:               "time.Second",
		90 * time.Second:          "90 * time.Second",
		48 * time.Hour:            "48 * time.Hour",
		1<<63 - 1 - 854775807:     "9223372036 * time.Second",
		time.Hour + time.Minute:   "61 * time.Minute",
		time.Minute + time.Second: "61 * time.Second",
	} {
		src, err := templates.Render(file(&model.Lock{
			SpecName: "a.Service.Do", SpecVar: "lockServiceDo", Wait: d, Context: -1,
			Keys: []*model.Key{{Text: "a", Parts: []model.Part{{Literal: "a"}}}},
		}))
		require.NoError(t, err)
		require.Contains(t, string(src), "Wait: "+want+"}\n")
	}
}

func TestRender_Constraint(t *testing.T) {
	t.Parallel()
	m := file(nil)
	m.Services = nil
	m.Constraint = "//go:build linux"
	src, err := templates.Render(m)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(src), templates.Header+"\n\n//go:build linux\n\npackage a\n"), string(src))
}

func TestRender_ADefectShowsTheSource(t *testing.T) {
	t.Parallel()
	m := file(nil)
	m.Services[0].Wrapper = "not an identifier"
	_, err := templates.Render(m)
	require.ErrorContains(t, err, "generated code does not parse")
	require.ErrorContains(t, err, "type not an identifier struct")
}
