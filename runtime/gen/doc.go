// Package gen is for the code that lockgen generates, and not for import by anything else: what programs use is package lockrt, one folder up. It
// changes only in ways with which code that was generated before compiles.
//
// A generated wrapper builds its keys by the Append functions, acquires what its [Spec] says by an [Acquirer], and gives the [Hold] back. A
// generated set of entities makes their locks by [For] and its like.
package gen
