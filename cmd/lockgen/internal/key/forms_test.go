package key_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/templates/model"
)

// A sample is a value of a type, and how the runtime writes it as one of a type parameter.
type sample struct {
	value any
	write func() ([]byte, error)
}

func sampleOf[T any](value T) sample {
	return sample{value, func() ([]byte, error) { return gen.AppendValueOrEmpty(nil, value) }}
}

// samples are named by their type, as Go writes it.
var samples = map[string]sample{
	"string": sampleOf("a:b"), "bool": sampleOf(true), "uintptr": sampleOf(uintptr(7)),
	"int": sampleOf(-1), "int8": sampleOf(int8(-2)), "int16": sampleOf(int16(-3)), "int32": sampleOf(int32(-4)), "int64": sampleOf(int64(-5)),
	"uint": sampleOf(uint(1)), "uint8": sampleOf(uint8(2)), "uint16": sampleOf(uint16(3)), "uint32": sampleOf(uint32(4)), "uint64": sampleOf(uint64(5)),
	"[]byte": sampleOf([]byte{1, 0xab}), "[2]byte": sampleOf([2]byte{1, 0xab}), "*string": sampleOf(new("x/y")),

	"plainString": sampleOf(plainString("%")), "plainBytes": sampleOf(plainBytes{0xff}), "plainArray": sampleOf(plainArray{1, 2}),
	"ownAppend": sampleOf(ownAppend{"x"}), "ownKey": sampleOf(ownKey(1)), "ownBoth": sampleOf(ownBoth("x")),
	"ownPointer": sampleOf(ownPointer{"x"}), "*ownPointer": sampleOf(&ownPointer{"x"}), "ownAndText": sampleOf(ownAndText{}),
	"textInt": sampleOf(textInt(12)), "textBytes": sampleOf(textBytes("x")), "textArray": sampleOf(textArray{}), "textStruct": sampleOf(textStruct{"x"}),
	"textPointer": sampleOf(textPointer{"x"}), "*textPointer": sampleOf(&textPointer{"x"}), "textBoth": sampleOf(textBoth{"x"}), "*textBoth": sampleOf(&textBoth{"x"}),
	"ownTime": sampleOf(ownTime{}), "toPlain": sampleOf(toPlain(new(plainString("%")))), "toInt": sampleOf(toInt(new(textInt(12)))),

	// Values without a form.
	"float64": sampleOf(1.5), "complex128": sampleOf(1i), "[]int": sampleOf([]int{1}), "[0]byte": sampleOf([0]byte{}), "map[string]int": sampleOf(map[string]int{}),
	"chan int": sampleOf(make(chan int)), "struct{}": sampleOf(struct{}{}), "noForm": sampleOf(noForm{"x"}),
	"time.Time": sampleOf(time.Time{}), "embedsTime": sampleOf(embedsTime{}), "*embedsTime": sampleOf(&embedsTime{}),
	"toOwn": sampleOf(toOwn(new(ownKey(1)))), "toBytes": sampleOf(toBytes(&textBytes{1})),
}

// appenders are the functions of the runtime that a leaf names.
var appenders = map[string]func(v reflect.Value) []byte{
	"AppendString": func(v reflect.Value) []byte {
		if v.Kind() == reflect.String {
			return gen.AppendString(nil, v.String())
		}
		return gen.AppendString(nil, v.Bytes())
	},
	"AppendInt":  func(v reflect.Value) []byte { return gen.AppendInt(nil, v.Int()) },
	"AppendUint": func(v reflect.Value) []byte { return gen.AppendUint(nil, v.Uint()) },
	"AppendBool": func(v reflect.Value) []byte { return gen.AppendBool(nil, v.Bool()) },
	"AppendHex": func(v reflect.Value) []byte {
		if v.Kind() == reflect.Array {
			slice := make([]byte, v.Len())
			reflect.Copy(reflect.ValueOf(slice), v)
			return gen.AppendHex(nil, slice)
		}
		return gen.AppendHex(nil, v.Bytes())
	},
}

// TestForms_AsInTheRuntime: a value whose type the generator knows is written as one of a type argument, whose form the runtime finds out, and what one
// refuses the other refuses.
func TestForms_AsInTheRuntime(t *testing.T) {
	t.Parallel()
	params := typed(t)
	used := map[string]bool{}
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			want, failed := s.write()
			template, err := key.Parse("k:{v}")
			require.NoError(t, err)
			scope := &key.Scope{Package: params[name].Pkg(), Params: types.NewTuple(params[name]), Skip: -1}
			k, err := scope.Resolve(template)
			if failed != nil {
				require.Error(t, err, "the runtime says %v", failed)
				return
			}
			require.NoError(t, err)
			got, form := written(t, k.Parts[1].Value, s.value)
			used[form] = true
			require.Equal(t, string(want), string(got))
		})
	}
	for _, form := range model.Forms {
		name := form.Method
		if name == "" {
			name = form.Leaf.Appender()
		}
		require.True(t, used[name], "no sample has the form %s", name)
	}
}

// written writes a value as the generator would have code do it, and says by which method, or by which function.
func written(t *testing.T, value *model.Value, sample any) (text []byte, form string) {
	t.Helper()
	v := reflect.New(reflect.TypeOf(sample))
	v.Elem().Set(reflect.ValueOf(sample))
	switch {
	case len(value.Steps) == 0:
		form = value.Leaf.Appender()
		v = v.Elem()
		if value.Deref {
			v = v.Elem()
		}
	default:
		form = value.Steps[0].Name
		if v.Elem().Kind() == reflect.Pointer {
			v = v.Elem()
		}
		var args []reflect.Value
		if value.Steps[0].Buffer {
			args = append(args, reflect.ValueOf([]byte{}))
		}
		v = v.MethodByName(form).Call(args)[0]
	}
	require.Contains(t, appenders, value.Leaf.Appender())
	return appenders[value.Leaf.Appender()](v), form
}

// typed checks the file of the samples and gives each a parameter v of its type.
func typed(t *testing.T) map[string]*types.Var {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "samples_test.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "source", nil)}).Check("samples", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	params := map[string]*types.Var{}
	for name := range samples {
		tv, err := types.Eval(fset, pkg, file.End(), name)
		if name == "time.Time" {
			imported := pkg.Imports()
			i := slices.IndexFunc(imported, func(p *types.Package) bool { return p.Path() == "time" })
			require.GreaterOrEqual(t, i, 0)
			tv, err = types.TypeAndValue{Type: imported[i].Scope().Lookup("Time").Type()}, nil
		}
		require.NoError(t, err, name)
		params[name] = types.NewParam(token.NoPos, pkg, "v", tv.Type)
	}
	return params
}
