// Package generatedtest has annotated interfaces with the committed output of the generator. Its tests compare this
// output with a fresh run, and call it against a real Redis.
//
//lockgen:defaults watchdog=10s
package generatedtest

//go:generate go run github.com/lockgen/lockgen/cmd/lockgen
