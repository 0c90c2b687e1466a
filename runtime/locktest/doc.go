// Package locktest helps to test programs that hold locks.
//
// [Client] is what most tests need: a client that works on any machine, and a test
// that fails if it forgets to unlock.
//
//	func TestPay(t *testing.T) {
//		locks := locktest.Client(t, lockrt.Options{})
//		err := NewService(locks).Pay(t.Context(), "42")
//		...
//	}
//
// Package redistest, below this one, starts real servers and breaks the network in
// front of them, for tests of what happens then.
package locktest
