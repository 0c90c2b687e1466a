package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Replica returns a server that replicates from master. One that was restarted has a moment to become it.
func (c *RedisCluster) Replica(master *RedisServer) *RedisServer {
	c.tb.Helper()
	var replica *RedisServer
	if err := await(master.Addr()+" to have a replica", func() bool {
		replica = c.replica(c.id(master))
		return replica != nil
	}); err != nil {
		c.tb.Fatal(err)
	}
	return replica
}

// replica returns a server that replicates from the one named id, or nil.
func (c *RedisCluster) replica(id string) *RedisServer {
	all, err := c.alive().proc.table()
	if err != nil {
		return nil
	}
	for _, node := range all {
		if node.master != id || node.has("fail") {
			continue
		}
		for _, n := range c.nodes {
			if n.Addr() == node.addr && n.Running() {
				return n
			}
		}
	}
	return nil
}

// alive returns a server that runs.
func (c *RedisCluster) alive() *RedisServer {
	c.tb.Helper()
	for _, n := range c.nodes {
		if n.Running() {
			return n
		}
	}
	c.tb.Fatal("redistest: no server of the cluster runs")
	return nil
}

// id returns the name of a server in the cluster.
func (c *RedisCluster) id(of *RedisServer) string {
	c.tb.Helper()
	all, err := c.alive().proc.table()
	if err != nil {
		c.tb.Fatal(err)
	}
	for _, n := range all {
		if n.addr == of.Addr() {
			return n.id
		}
	}
	c.tb.Fatalf("redistest: %s is not in the cluster", of.Addr())
	return ""
}

// Failover has the replica of master take its place, as planned, and returns it once all servers know.
func (c *RedisCluster) Failover(master *RedisServer) *RedisServer {
	c.tb.Helper()
	next := c.Replica(master)
	if last, ok := c.elected[next]; ok {
		<-time.After(time.Until(last.Add(votesLast)))
	}
	var asked time.Time
	if err := await(next.Addr()+" to take the place of "+master.Addr(), func() bool {
		role, err := next.Do("ROLE").ToArray()
		if err == nil && len(role) > 0 {
			if is, _ := role[0].ToString(); is == "master" {
				return true
			}
		}
		if time.Since(asked) > votesLast { // at first, and when votes have come too late for the request before
			next.Do("CLUSTER", "FAILOVER")
			asked = time.Now()
		}
		return false
	}); err != nil {
		c.tb.Fatal(err)
	}
	c.AwaitMaster(next)
	c.elected[next] = time.Now()
	return next
}

// AwaitMaster waits until all servers that run know that s is a master.
func (c *RedisCluster) AwaitMaster(s *RedisServer) {
	c.tb.Helper()
	c.await(s.Addr()+" to be a master", func(n *clusterNode) bool {
		return n.addr != s.Addr() || n.has("master") && len(n.slots) > 0
	})
}

// await waits until all servers that run say of all nodes that holds.
func (c *RedisCluster) await(what string, holds func(*clusterNode) bool) {
	c.tb.Helper()
	for _, n := range c.nodes {
		if err := await(n.Addr()+" to know "+what, func() bool {
			if !n.Running() {
				return true
			}
			all, err := n.proc.table()
			return err == nil && !slices.ContainsFunc(all, func(n *clusterNode) bool { return !holds(n) })
		}); err != nil {
			c.tb.Fatal(err)
		}
	}
}

// A Move is a slot on its way from one master to another.
type Move struct {
	c        *RedisCluster
	slot     int
	from, to *RedisServer
}

// Move begins to move a slot: from here on its keys may be with either server.
func (c *RedisCluster) Move(slot int, to *RedisServer) *Move {
	c.tb.Helper()
	m := &Move{c: c, slot: slot, from: c.Owner(slot), to: to}
	n := strconv.Itoa(slot)
	to.Do("CLUSTER", "SETSLOT", n, "IMPORTING", c.id(m.from))
	m.from.Do("CLUSTER", "SETSLOT", n, "MIGRATING", c.id(to))
	return m
}

// Keys moves the keys that the slot has now.
func (m *Move) Keys() {
	m.c.tb.Helper()
	for {
		keys, err := m.from.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.slot), "100").AsStrSlice()
		if err != nil {
			m.c.tb.Fatalf("redistest: keys of slot %d: %v", m.slot, err)
		}
		if len(keys) == 0 {
			return
		}
		m.from.Do(append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.proc.peerPort()), "", "0", millis(opTimeout), "KEYS"}, keys...)...)
	}
}

// End gives the slot to where it moves, with the keys that are left, and tells all masters.
func (m *Move) End() {
	m.c.tb.Helper()
	m.Keys()
	n, id := strconv.Itoa(m.slot), m.c.id(m.to)
	m.to.Do("CLUSTER", "SETSLOT", n, "NODE", id)
	m.from.Do("CLUSTER", "SETSLOT", n, "NODE", id)
	m.c.await(fmt.Sprintf("where slot %d is", m.slot), func(n *clusterNode) bool {
		return n.owns(m.slot) == (n.addr == m.to.Addr())
	})
}
