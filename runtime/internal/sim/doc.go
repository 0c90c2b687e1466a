// Package sim runs the real clients and the real scripts in virtual time, and breaks what they depend on.
//
// It is all tests. A world is one testing/synctest bubble: some processes, each a Client with goroutines that lock,
// work and unlock; embedded servers whose clock is that of the bubble, one, five or a cluster of three; and a network of ours
// between them, which is slow, loses replies, holds everything up or breaks. One seed determines the events of a world. Every command reaches
// a server at one place, one after the other, and after each the invariants are checked: see watch_test.go. All worlds
// are also replayed against the specification: see trace_test.go. Histories are explained by porcupine.
//
//	go test ./runtime/internal/sim                                       300 worlds
//	go test ./runtime/internal/sim -run 'TestWorlds$' -args -seed 4711   one of them; if it fails, its last 300 events, and the name of a file with all
//
// The schedule of goroutines is not drawn from the seed, so a seed repeats calls and faults, but not every interleaving: a world
// that fails is run again 100 times, to say how often it does.
//
// A process that is stopped does not see the time pass. Here it is cut off instead, its timers run, and what it sent arrives
// when it goes on.
package sim
