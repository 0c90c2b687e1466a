// Package locktest helps to test programs that hold locks.
//
// [Client] is what most tests need: a client that works on any machine, and a test
// that fails if it forgets to unlock. It uses the server that $REDIS_URL names, else a
// redis-server if one is installed, else one inside of the test binary.
//
//	func TestPay(t *testing.T) {
//		locks := locktest.Client(t, lockrt.Options{})
//		err := NewService(locks).Pay(t.Context(), "42")
//		...
//	}
//
// [Lose] takes a lock from its holder, by the lease or by a context below it, to see what the program does then. A [Network]
// loses a reply, delays, falls silent or refuses, for the outcomes that nobody knows:
//
//	network := locktest.NewNetwork(t)
//	locks := network.Client(lockrt.Options{})
//	lost := network.DropReply() // Redis will have locked, and we shall not have heard
//	err := NewService(locks).Pay(t.Context(), "42")
//	<-lost
//
// [TestLocker] checks that locks of a kind exclude, hand over, report their loss and leave nothing behind, also while
// messages get lost and servers fail.
//
// Package redistest, below this one, starts real servers and breaks the network in
// front of them, for tests of what happens then.
package locktest
