package generatedtest

import (
	"context"
	htmpl "html/template"
	"text/template"
	stdtime "time"
)

// Errors exists because of the function that it calls: a declaration with a name that the output would like to use for
// an import.
func Errors() string { return errors() }

func errors() string { return "errors" }

type s struct{ ID string }

// number is the constraint of a numeric id.
type number interface{ ~int | ~int64 }

// Names has every name that could clash with names of the output.
//
//lockgen:service name=Guarded
type Names interface {
	//lockgen:lock key=names:{key}:{b}
	Locals(ctx context.Context, key, keys, held, err, b string) error
	//lockgen:lock key=names:{nil}/{string}/{append}/{make}/{byte} wait=0 busy=skip
	Predeclared(ctx context.Context, nil string, string int, append bool, make uint, byte string, len, error, any int) error
	//lockgen:lock key=names:{time}
	Imports(context context.Context, time string, lockrt stdtime.Duration, template, errors int) (htmpl.HTML, error)
	//lockgen:lock key=names:{s.ID}
	Shadow(ctx context.Context, s s) (res *s, err error)
	//lockgen:lock key=names:{NamesKeys}:{lockNamesGenerated}
	Generated(ctx context.Context, NamesKeys, lockNamesGenerated string) error
	//lockgen:lock key=names:{x}
	Results(ctx context.Context, x int, t *template.Template) (key string, held, _ int, e error)
	//lockgen:lock key=names:{x}
	Lock(_ context.Context, x int, _ string, _ ...func(int) error) error
	next() int
	locks(_ int, _ *Order)
}

// Store has type parameters.
//
//lockgen:service
type Store[K ~string, N number, _ any] interface {
	//lockgen:lock key=names:{k}:{n}
	Put(ctx context.Context, k K, n N) (N, error)
}

// Pointed has constraints that begin with a star. Without interface{} around it, Go takes the first one for the length of an array.
//
//lockgen:service
type Pointed[P *Order,] interface {
	//lockgen:lock key=pointed:{id}
	Save(ctx context.Context, id string, p P) error
}

// Either is Pointed for one of two types.
//
//lockgen:service
type Either[P *Order | *s,] interface {
	//lockgen:lock key=either:{id}
	Save(ctx context.Context, id string, p P) error
}
