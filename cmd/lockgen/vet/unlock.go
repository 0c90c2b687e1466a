package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Unlock finds leases that some way through the function never unlocks. The lock is then held, and renewed, until the process ends.
//
// A way ends where the function returns, where it panics if it recovers from that itself, and where the variable gets another value, as in the next
// round of a loop: nobody can unlock the lease then. A defer in a loop is an unlock, although it comes only when the function returns.
//
// A lease that is dropped at once, or that no way unlocks, is meant only if it ends by itself: with WithLease or WithMaxHold, as an option of the call or
// of its lock. It is reported only where the function can be seen to use a lock that was made without them: one that it makes, or that this package puts
// into a variable or a field that others cannot set; not one of a parameter, and not a typed lock, whose directive has the options. One that is to be
// held until the process ends is reported too: unlock it when the process is told to stop, so that nobody has to wait for the watchdog.
var Unlock = &analysis.Analyzer{
	Name:     "unlock",
	Doc:      "find leases that are not unlocked on some path\n\nA lease that nobody unlocks is renewed for as long as the process lives.",
	URL:      docs + "#Unlock",
	Requires: graphs,
	Run: func(pass *analysis.Pass) (any, error) {
		functions(pass, func(f *function) {
			for _, a := range f.acquisitions() {
				f.unlocked(a)
			}
		})
		return nil, nil
	},
}

func (f *function) unlocked(a acquisition) {
	switch {
	case a.lease == nil && !f.ends(a.call):
		f.pass.ReportRangef(a.call, "the lease is dropped, so the lock is held until the process ends: keep it and unlock it, or give it an end by WithLease")
		return
	case a.lease == nil || !a.local || f.escapes(a.lease):
		return
	}
	leak, how := f.leak(a)
	if leak == nil || f.ends(a.call) && !f.releases(a.lease) {
		return
	}
	done, call := f.how(a)
	f.pass.ReportRangef(a.call, "%s is not %s on the way that %s at line %d: defer %s.%s",
		a.lease.Name(), done, how, f.pass.Fset.PositionFor(leak.Pos(), false).Line, a.lease.Name(), call)
}

// replaces is how a way loses a lease that neither returns nor panics.
const replaces = "replaces it"

// leak is the first place, of those that a way leads to on which the lease was not released, where it is lost, and how.
func (f *function) leak(a acquisition) (at ast.Node, how string) {
	lost := func(n ast.Node, what string) {
		if at == nil || how == replaces && what != replaces || (how == replaces) == (what == replaces) && n.Pos() < at.Pos() {
			at, how = n, what
		}
	}
	// A deferred function releases the last value of the variable, and not a lease that another value has replaced
	// before.
	var late func(from ast.Node)
	overwritten := func(n ast.Node) bool {
		again := assigns(f.info, n, a.lease) && n != a.stmt
		if again {
			lost(n, replaces)
		}
		return again
	}
	w := &walk{function: f, from: a.stmt, lease: a.lease, err: a.err}
	w.visit = func(n ast.Node) bool {
		now, deferred := f.released(n, a.lease)
		if deferred && f.inside(n, a.lease) {
			late(n)
		}
		return !now && !deferred && !overwritten(n)
	}
	w.end = func(n ast.Node) {
		switch n.(type) {
		case *ast.ReturnStmt:
			lost(n, "returns")
		case *ast.ExprStmt:
			lost(n, "panics")
		default:
			lost(n, replaces)
		}
	}
	late = func(from ast.Node) {
		again := func(n ast.Node) {
			if n == a.stmt && !f.declares(n, a.lease) {
				lost(n, replaces)
			}
		}
		w := &walk{function: f, from: from, lease: a.lease, err: a.err, end: again}
		w.visit = func(n ast.Node) bool {
			again(n)
			now, _ := f.released(n, a.lease)
			return n != a.stmt && !now && !f.declares(n, a.lease) && !overwritten(n)
		}
		w.run()
	}
	if f.deferredBefore(a) {
		late(a.stmt)
		return at, how
	}
	if w.run(); at == nil && !f.releases(a.lease) { // whichever way has the lease loses it
		w.open = true
		w.run()
	}
	return at, how
}

// releases reports whether the function releases the lease on some way.
func (f *function) releases(lease *types.Var) bool {
	found := false
	ast.Inspect(f.body, func(n ast.Node) bool {
		found = found || f.isRelease(n, lease)
		return !found
	})
	return found
}

// ends reports whether a call may ask for a lease that ends by itself, as the call says or what made the lock. Of a lock that the package does not
// make where it can be seen, that is not known.
func (f *function) ends(call *ast.CallExpr) bool {
	values := valuesOf(f.pass)
	var mayEnd func(call *ast.CallExpr, depth int) bool
	var comes func(lock ast.Expr, depth int) bool // from a call that may say so
	mayEnd = func(call *ast.CallExpr, depth int) bool {
		if call == nil || depth == 0 || f.limits(call) {
			return true
		}
		fn := callee(f.info, call)
		if fn == nil || !isOurs(fn) {
			return true
		}
		var of []ast.Expr // the locks that this one comes from
		recv := fn.Signature().Recv()
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		switch {
		case recv != nil && ours(recv.Type()) != "Client" && ok:
			of = []ast.Expr{sel.X}
		case fn.Name() == "NewMultiLock":
			of = call.Args
		}
		return slices.ContainsFunc(of, func(e ast.Expr) bool { return comes(e, depth-1) })
	}
	comes = func(lock ast.Expr, depth int) bool {
		if call, ok := ast.Unparen(lock).(*ast.CallExpr); ok {
			return mayEnd(call, depth)
		}
		all := values.sources[source(f.info, lock)]
		return len(all) == 0 || depth == 0 || slices.ContainsFunc(all, func(e ast.Expr) bool {
			return e == nil || !f.info.Types[e].IsNil() && comes(e, depth-1) // there is no lease of a lock that is nil
		})
	}
	return mayEnd(call, 10)
}

// limits reports whether an option of a call gives leases an end, or may do that.
func (f *function) limits(call *ast.CallExpr) bool {
	options := -1 // the index of the first one
	if sig, ok := f.info.TypeOf(call.Fun).(*types.Signature); ok && sig.Variadic() {
		if last := sig.Params().At(sig.Params().Len() - 1).Type().(*types.Slice); ours(last.Elem()) == "LockOption" {
			options = sig.Params().Len() - 1
		}
	}
	i := -1
	return call.Ellipsis.IsValid() || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		i++
		switch t := f.info.TypeOf(arg).(type) {
		case *types.Tuple:
			return true // of a call whose results are the arguments
		default:
			if ours(t) == "Spec" {
				return true // it has a field for that
			}
		}
		if options < 0 || i < options {
			return false
		}
		option, ok := ast.Unparen(arg).(*ast.CallExpr)
		if !ok {
			return true // an option in a variable can say anything
		}
		fn := callee(f.info, option)
		return fn == nil || !isOurs(fn) || fn.Name() == "WithLease" || fn.Name() == "WithMaxHold"
	})
}

// how the lease is released: what it is then, and by which call.
func (f *function) how(a acquisition) (done, call string) {
	obj, _, _ := types.LookupFieldOrMethod(a.lease.Type(), true, nil, "Unlock")
	switch {
	case obj != nil:
		return "unlocked", "Unlock(ctx)"
	case ours(a.lease.Type()) == "Hold":
		return "released", "Release(&err)"
	}
	return "released", "Release(ctx)"
}

// inside reports whether the release that a node defers stands in a function of its own, so that it sees the variable
// as it is in the end.
func (f *function) inside(n ast.Node, lease *types.Var) bool {
	d, ok := n.(*ast.DeferStmt)
	if !ok {
		return false
	}
	lit, ok := ast.Unparen(d.Call.Fun).(*ast.FuncLit)
	return ok && mentions(f.info, lit.Body, lease)
}

// deferredBefore reports whether a function that releases the lease was deferred before there was
// one.
func (f *function) deferredBefore(a acquisition) bool {
	found := false
	f.inspect(f.body, func(n ast.Node) bool {
		if d, ok := n.(*ast.DeferStmt); ok && d.Pos() < a.call.Pos() && f.inside(d, a.lease) {
			_, deferred := f.released(d, a.lease)
			found = found || deferred
		}
		return !found
	})
	return found
}

// declares reports whether a statement declares a variable, so that it is a new one each time.
func (f *function) declares(n ast.Node, v *types.Var) bool {
	return n.Pos() <= v.Pos() && v.Pos() < n.End()
}
