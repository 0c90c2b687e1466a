package check

import (
	"go/types"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates/model"
)

// A lasting is a kind of result that is used after the method has returned.
type lasting int

const (
	passing   lasting = iota
	sequence          // until the loop ends
	closable          // until Close, which the output can wrap
	closed            // until Close, which it can't
	draining          // until the channel is drained
	callables         // until the function is called
	looping           // until a loop over the function ends, which is no iter.Seq
)

// stream finds out which result of a method takes the lock with it, if one does, or notes what there is to be said about that.
func (c *checker) stream(iface *directive.Interface, m *method) (*model.Stream, bool) {
	results := m.fn.Signature().Results()
	scope := m.arg("scope")
	var at []int
	for i := range results.Len() {
		if lasts(results.At(i).Type()) != passing {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		if scope != nil && !scope.Is("return") {
			c.list.Add(scope.Pos, scope.End, "%s has no result that outlives the call, so there is nothing to hold the lock for", m.fn.Name())
			return nil, false
		}
		if scope == nil {
			c.outlasts(m)
		}
		return nil, true
	}
	if scope.Is("return") {
		return nil, true
	}
	typ := results.At(at[0]).Type()
	name, kind := m.fn.Name(), lasts(typ)
	d := m.directives[0]
	switch {
	case scope == nil:
		c.list.Add(d.Slash, d.End, "%s returns %s, which outlives the call: scope=return to release when %s returns%s", name, c.typeName(typ), name, kind.advice())
	case len(at) > 1:
		c.list.Add(scope.Pos, scope.End, "%s returns several results that outlive the call, and the lock can be held for one; scope=return releases when %s returns", name, name)
	case scope.Is("iter") && kind == sequence:
		return &model.Stream{Result: at[0], Pairs: isNamed(typ, "iter", "Seq2")}, true
	case scope.Is("iter"):
		c.list.Add(scope.Pos, scope.End, "scope=iter is for an iter.Seq or iter.Seq2, and %s returns %s%s", name, c.typeName(typ), kind.advice())
	case kind != closable:
		c.list.Add(scope.Pos, scope.End, "scope=close is for an interface with Close() error, such as io.ReadCloser, and %s returns %s%s", name, c.typeName(typ), kind.advice())
	default:
		methods, ok := c.closer(iface, m, typ)
		ok = ok && c.closerLengths(iface, m, at[0])
		return &model.Stream{Result: at[0], Methods: methods}, ok
	}
	return nil, false
}

// lasts reports whether and how a result is used after the method has returned.
func lasts(t types.Type) lasting {
	if isNamed(t, "iter", "Seq") || isNamed(t, "iter", "Seq2") {
		return sequence
	}
	switch t := t.Underlying().(type) {
	case *types.Chan:
		return draining
	case *types.Signature:
		if ranges(t) {
			return looping
		}
		return callables
	}
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "Close")
	fn, ok := obj.(*types.Func)
	if !ok || fn.Signature().Params().Len() > 0 {
		return passing
	}
	results := fn.Signature().Results()
	if _, param := types.Unalias(t).(*types.TypeParam); !param && types.IsInterface(t) && results.Len() == 1 && isError(results.At(0).Type()) {
		return closable
	}
	return closed
}

// ranges reports whether a loop can go over a function: func(yield func(...) bool).
func ranges(f *types.Signature) bool {
	if f.Params().Len() != 1 || f.Results().Len() > 0 {
		return false
	}
	yield, ok := f.Params().At(0).Type().Underlying().(*types.Signature)
	return ok && yield.Params().Len() <= 2 && yield.Results().Len() == 1 && types.Identical(yield.Results().At(0).Type(), types.Typ[types.Bool])
}

// advice says what else there is to do about such a result.
func (l lasting) advice() string {
	switch l {
	case sequence:
		return "; scope=iter to hold the lock until the loop ends"
	case closable:
		return "; scope=close to hold the lock until Close"
	case closed:
		return "; the lock can be held until Close if the result is an interface with Close() error, such as io.ReadCloser"
	case draining:
		return "; the lock can't be held until the channel is drained, but until a loop ends: return an iter.Seq"
	case looping:
		return "; to hold the lock until a loop over it ends, return an iter.Seq or iter.Seq2 and say scope=iter"
	case callables:
		return "; the lock can't be held until the function is called"
	}
	return ""
}

// closer lists the methods of an interface, for a type that the output wraps it in.
func (c *checker) closer(iface *directive.Interface, m *method, typ types.Type) ([]*model.Method, bool) {
	var methods []*model.Method
	for fn := range typ.Underlying().(*types.Interface).Methods() {
		if !fn.Exported() && fn.Pkg() != c.pkg.Types {
			d := m.directives[0]
			c.list.Add(d.Slash, d.End, "%s has the method %s of package %s, which can't be implemented here; scope=return releases when %s returns",
				c.typeName(typ), fn.Name(), fn.Pkg().Path(), m.fn.Name())
			return nil, false
		}
		// Mistakes in its types are shown at the method of the service.
		out := c.signature(iface, &method{fn: fn, field: m.field})
		if out == nil {
			return nil, false
		}
		out.Doc = nil
		methods = append(methods, out)
	}
	return methods, true
}
