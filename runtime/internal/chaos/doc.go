// Package chaos breaks what a lock depends on while several processes use it, and checks what they saw.
//
// It is all tests. TestChaos runs each fault of a table: it starts a server of its own and three processes, which are
// this test binary again, has them contend for a key that is held for long and for some that are held briefly, breaks
// something, and waits until they are served again. Each process says what it asked for, was granted, learned and
// released, and when, by a clock that all processes of a machine share. The history is then checked: that no two
// processes trusted leases of one key at once, that losses were reported in time, that nobody waited while nobody held,
// that fencing tokens rose; once by the intervals, which gives the figures, and once by porcupine against a model of a
// lock. A history that fails is kept.
//
//	make chaos                                                                 all at full length, and the table
//	go test ./runtime/internal/chaos                                           every fault, shortened
//	go test ./runtime/internal/chaos -run 'TestChaos//Fair.*killed' -every     some of them, shortened
//
// It runs on Linux, where processes share a clock, can be stopped, and servers can be lied to about the time.
package chaos
