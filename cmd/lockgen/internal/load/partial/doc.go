// Package partial parses and checks only what a run needs of its packages and of all that they import. Everything in it serves the speed of loading:
// without it the same outputs come from a full load, which takes some ten times as long and a compiled package for each import.
//
// # The normal case
//
// A [Program] has a [Unit] for each package. The package that loads says which units are [Unit.Annotated], parses them, and reaches the interfaces and
// functions that directives name ([Unit.Reach]). [Unit.Types] then checks what was reached, here and in every package on the way. No package is
// compiled, no export data is read, and a package that does not compile is read all the same: that it lacks what is only to be generated matters only
// where a reached declaration names it.
//
// # Omissions
//
//   - Bodies of functions. A file without directives loses them before it is parsed: a reader of bytes that knows comments, literals and brackets
//     overwrites them with blanks, so that all positions stay. Source that this reader does not understand is parsed as it is. Of files with directives they
//     are parsed, since a directive inside of a body is a mistake that is reported, and never checked.
//   - Declarations that nothing reaches. From an interface or a function the names in its syntax lead on, through packages, to types, constants,
//     variables and to the methods of types. All others are not checked, and neither are imports that only they use.
//   - Unexported fields of structs in packages without directives. No key path can name them, and they lead far into packages. Embedded fields stay,
//     since what they promote can be named. A type whose size is asked for (unsafe.Sizeof and the like, in the length of an array) has all its fields.
//   - Unexported methods of types in packages without directives, but for those of interfaces, which decide what implements them.
//   - Comments of packages without directives, and the outputs of the generator itself, which are to be written anew.
//   - Info of expressions of packages without directives.
//
// # Effects
//
// Types of such packages have fewer fields and methods than they have in the program. Outputs do not show that: a key path goes through exported names,
// or through those of its own package, which has directives and so keeps all. Sizes and comparisons of types are not asked for elsewhere. A name of a
// parameter that is also one in package scope reaches that too, which costs time and nothing else. The name of an import is that of the package graph,
// and for a package that is not there a guess by its path.
//
// Mistakes are those of reached declarations alone: [Unit.Errors] and [Program.Abroad] have what go/types says about them. A circle of imports is the
// error [Circle] of the import that closes it.
//
// # How that is known
//
// TestPartial_AsTheFullLoad loads packages both ways, partially and in full with bodies and compiled imports, and compares the outputs, byte for byte,
// and what each method locks: the packages of this module, and ones that are written to have everything that the list above leaves out right beside
// what is needed. TestWithoutBodies_StandardLibrary and FuzzWithoutBodies compare what files declare with and without bodies. The analyzer stale of
// package vet makes the outputs from a full load, so "lockgen vet" compares both ways in every module that calls it. TestLarge annotates hundreds of
// interfaces of a module of others, and has what is generated checked in full.
//
// # Bad input
//
// A file that cannot be read is left out: the go command has named it, so it has just been removed. A file with syntax errors is in [Unit.Broken], and
// what the parser made of it is used. Neither a Program nor a Unit is for several goroutines.
package partial
