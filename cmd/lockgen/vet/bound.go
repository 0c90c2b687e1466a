package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Bound finds locks that are waited for without a bound: the context has no deadline, and there is no WithWait. Such a wait lasts
// for ever if two locks wait for each other, or if a program enters a lock again with an outer context.
//
// It may be meant, so this is a warning: it is said only with the flag -lockbound.warn, which "lockgen vet" sets, and that does not fail because
// of it. Only contexts are known that are made in the package, from context.Background or the like, and locks that are made there, too; of a
// parameter it is not known what bounds it.
var Bound = &analysis.Analyzer{
	Name:     "lockbound",
	Doc:      "warn of locks that are waited for without a bound\n\nGive the context a deadline, or the lock WithWait.",
	URL:      docs + "#Bound",
	Requires: graphs,
}

var warn bool // of waits without a bound

func init() {
	Bound.Flags.BoolVar(&warn, "warn", false, "say it: without this flag nothing is said")
	Bound.Run = func(pass *analysis.Pass) (any, error) {
		if !warn {
			return nil, nil
		}
		values := valuesOf(pass)
		calls(pass, func(f *function, call *ast.CallExpr) {
			if f.waitsFor(call) && values.unbounded(call.Args[0]) && values.plain(call) {
				f.pass.ReportRangef(call, "warning: nothing bounds this wait: the context has no deadline, and there is no WithWait")
			}
		})
		return nil, nil
	}
}

// waiting are those of the methods that ask which wait.
var waiting = []string{"Lock", "Do", "RLock", "RDo", "Acquire", "AcquireN"}

func (f *function) waitsFor(call *ast.CallExpr) bool {
	return slices.Contains(waiting, f.asks(call)) && len(call.Args) > 0
}

// values are the sources of a package, to follow an expression.
type values struct {
	info *types.Info
	sources
}

func valuesOf(pass *analysis.Pass) values {
	return values{pass.TypesInfo, pass.ResultOf[set].(sources)}
}

// value is what an expression stands for, as far as that is one call.
func (v values) value(e ast.Expr) *ast.CallExpr {
	for range 10 { // a := b; b := a in two functions is no end
		if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
			return call
		}
		if e = v.one(source(v.info, e)); e == nil {
			return nil
		}
	}
	return nil
}

// unbounded reports whether a context certainly has no deadline.
func (v values) unbounded(ctx ast.Expr) bool {
	for range 10 {
		call := v.value(ctx)
		if call == nil {
			return false
		}
		fn := callee(v.info, call)
		if fn == nil || fn.Pkg() == nil {
			return false
		}
		switch fn.Pkg().Path() + "." + fn.Name() {
		case "context.Background", "context.TODO", "context.WithoutCancel":
			return true
		case "context.WithCancel", "context.WithCancelCause", "context.WithValue", "os/signal.NotifyContext", runtimePath + ".WithOwner":
			ctx = call.Args[0]
		default:
			return false
		}
	}
	return false
}

// plain reports whether a lock that is waited for certainly has no WithWait: neither in the call, nor where it was
// made.
func (v values) plain(call *ast.CallExpr) bool {
	if !v.noWait(call, 1) {
		return false
	}
	for range 10 {
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if call = v.value(sel.X); call == nil {
			return false
		}
		fn := callee(v.info, call)
		if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != runtimePath {
			return false
		}
		switch fn.Name() {
		case "RLocker":
			continue
		case "Mutex", "FairMutex", "RWMutex", "Semaphore", "PermitSemaphore", "CountDownLatch":
			return v.noWait(call, fn.Signature().Params().Len()-1)
		}
		return false
	}
	return false
}

// noWait reports whether no option of a call, from the argument first on, can be WithWait.
func (v values) noWait(call *ast.CallExpr, first int) bool {
	if call.Ellipsis.IsValid() {
		return false
	}
	for i, arg := range call.Args {
		if i < first {
			continue
		}
		if _, isFunc := v.info.TypeOf(arg).Underlying().(*types.Signature); isFunc {
			continue // the function of Do
		}
		if b, ok := v.info.TypeOf(arg).Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
			continue // how many permits
		}
		option, ok := ast.Unparen(arg).(*ast.CallExpr)
		if !ok {
			return false
		}
		fn := callee(v.info, option)
		if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != runtimePath || fn.Name() == "WithWait" || !strings.HasPrefix(fn.Name(), "With") {
			return false
		}
	}
	return true
}
