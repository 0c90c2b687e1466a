// Package interop compares the locks of this library with the real Redisson: its tests drive Java programs and Go
// programs that share locks on one Redis, and write a table of the results.
//
// It is a module of its own, so that the library's tests need no Java. make interop, in the directory
// above, runs it.
package interop
