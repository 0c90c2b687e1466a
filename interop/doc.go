// Package interop holds the locks of this library against the real Redisson: its tests drive Java programs
// and Go programs that share locks on one Redis, and write down what they saw as a table.
//
// It is a module of its own, so that the library's tests need no Java. make interop, in the directory
// above, runs it.
package interop
