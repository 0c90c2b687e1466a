// Package gen is for the code that lockgen generates, and not for import by anything else: programs use package lockrt,
// one folder up. Its changes keep older generated code compiling.
//
// A generated wrapper builds its keys by the Append functions, acquires the locks of its [Spec] by an [Acquirer], and
// releases the [Hold]. A generated set of entities makes their locks by [For] and similar functions.
package gen
