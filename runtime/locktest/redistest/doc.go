// Package redistest starts real Redis servers for tests, and breaks the network
// in front of them.
//
// [Server] gives a test a server of its own, which it may stop, kill and start
// again. [Shared] gives it the one server of the test binary, for tests that
// only use keys of their own ([Key]). [Cluster] and [SharedCluster] are the same with a Redis Cluster,
// whose slots can be moved and whose masters can be replaced. [Sentinel] starts a master with replicas
// and the sentinels that watch them. [Proxy] stands between a client and a
// server, understands the protocol, and loses exactly the reply that the test names
// lose.
//
// The servers are processes of the redis-server found on the PATH, or named by
// $LOCKGEN_REDIS_SERVER. They listen on the loopback interface, keep nothing on
// disk, and do not outlive the test binary, however it ends.
//
// The package knows nothing of locks, so tests of every layer can use it.
package redistest
