// Package generatedtest holds annotated interfaces and what the generator makes of them, committed. Its tests compare the outputs with a
// fresh run, and call them against a real Redis.
//
//lockgen:defaults watchdog=10s
package generatedtest

//go:generate go run github.com/lockgen/lockgen/cmd/lockgen
