package templates_test

import (
	"go/format"
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

// locked is a lock of a key without placeholders.
func locked() *model.Lock {
	return &model.Lock{
		SpecName: "a.Service.Do", SpecVar: "lockServiceDo", Wait: model.UntilDone, Context: -1,
		Keys: []*model.Key{{Text: "a", Parts: []model.Part{{Literal: "a"}}}},
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
		lock := locked()
		lock.Wait = d
		src, err := templates.Render(file(lock))
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

func TestRender_LaysOutDocsAsGofmt(t *testing.T) {
	t.Parallel()
	for _, doc := range [][]string{
		{"Do does."},
		{"Do does ``this'' and that:", "", "", " - one", "   more", " - two", "", "# Heading", "", "\tcode", "\t\tmore code", "after", "", "[link]: https://example.com/a//b"},
		{"  indented", "go:build is no directive here", "* a", "1) b"},
	} {
		m := file(locked())
		m.Services[0].Methods[0].Doc = doc
		src, err := templates.Render(m)
		require.NoError(t, err)
		formatted, err := format.Source(src)
		require.NoError(t, err)
		require.Equal(t, string(formatted), string(src))
		require.Contains(t, string(src), "func (s *LockedService) Do(")
	}
}

func TestLayouts_AnswerForNamesOfAnyLength(t *testing.T) {
	t.Parallel()
	var layouts templates.Layouts
	for _, name := range []string{"a", "a_rather_long_name_of_a_parameter_that_makes_the_line_longer_than_any_that_is_read_with_pleasure", "größe", "b"} {
		m := file(locked())
		m.Services[0].Methods[0].Params[0].Name = name
		want, err := templates.Render(m)
		require.NoError(t, err)
		src, err := layouts.Render(m)
		require.NoError(t, err)
		require.Equal(t, string(want), string(src))
		require.Contains(t, string(src), "func (s *LockedService) Do("+name+" int) (err error) {\n\theld, err := s.locks")
	}
}
