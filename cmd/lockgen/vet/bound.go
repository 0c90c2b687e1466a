package vet

import (
	"go/ast"
	"go/token"
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

// values are what the variables of a package are set to, of those that are set once. Parameters and results are set when the function begins.
type values struct {
	info *types.Info
	of   map[*types.Var]ast.Expr // the value, or the call that has it as its first result
	set  map[*types.Var]int
	all  sources
}

func valuesOf(pass *analysis.Pass) *values {
	v := &values{info: pass.TypesInfo, of: map[*types.Var]ast.Expr{}, set: map[*types.Var]int{}, all: sources{}}
	assign := func(lhs []ast.Expr, rhs []ast.Expr) {
		v.all.assign(v.info, lhs, rhs)
		for i, e := range lhs {
			to := variable(v.info, e)
			if to == nil {
				continue
			}
			v.set[to]++
			switch {
			case len(lhs) == len(rhs):
				v.of[to] = rhs[i]
			case len(rhs) == 1 && i == 0:
				v.of[to] = rhs[0]
			}
		}
	}
	arrive := func(lists ...*ast.FieldList) { // with a value that is not known
		for _, list := range lists {
			if list == nil {
				continue
			}
			for _, field := range list.List {
				for _, name := range field.Names {
					assign([]ast.Expr{name}, nil)
				}
			}
		}
	}
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				assign(n.Lhs, n.Rhs)
			case *ast.ValueSpec:
				var lhs []ast.Expr
				for _, name := range n.Names {
					lhs = append(lhs, name)
				}
				if len(n.Values) > 0 {
					assign(lhs, n.Values)
				}
			case *ast.RangeStmt:
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if e != nil {
						assign([]ast.Expr{e}, nil)
					}
				}
			case *ast.FuncDecl:
				arrive(n.Recv, n.Type.Params, n.Type.Results)
			case *ast.FuncLit:
				arrive(n.Type.Params, n.Type.Results)
			case *ast.CompositeLit:
				v.all.literal(v.info, n)
			case *ast.UnaryExpr:
				v.all.address(v.info, n)
				if to := variable(v.info, n.X); n.Op == token.AND && to != nil {
					v.set[to] += 2 // it may be set through its address
				}
			}
			return true
		})
	}
	return v
}

// value is what an expression stands for, as far as that is one call.
func (v *values) value(e ast.Expr) *ast.CallExpr {
	for range 10 { // a := b; b := a in two functions is no end
		if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
			return call
		}
		of := variable(v.info, e)
		if of == nil || v.set[of] != 1 || v.of[of] == nil {
			return nil
		}
		e = v.of[of]
	}
	return nil
}

// unbounded reports whether a context certainly has no deadline.
func (v *values) unbounded(ctx ast.Expr) bool {
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
func (v *values) plain(call *ast.CallExpr) bool {
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
func (v *values) noWait(call *ast.CallExpr, first int) bool {
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
