package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// A RedisCluster is a running Redis Cluster of three masters with one replica each, as one test sees it. Its
// methods fail the test when they do not succeed, so call them from the test's goroutine.
type RedisCluster struct {
	tb    testing.TB
	nodes []*RedisServer // masters first, then their replicas in the same order, as it was begun

	elected map[*RedisServer]time.Time // when one was made a master by Failover
}

const shards = 3

// Slots is how many slots a cluster has.
const Slots = 16384

// clusterTimeout is the time without a message from a node after which the others consider it
// failed.
const clusterTimeout = 2500 * time.Millisecond

var sharedCluster struct {
	once  sync.Once
	procs []*process
	err   error
}

// Cluster starts a cluster for this test alone and returns once it serves all slots and its replicas are
// in step. It takes about two seconds. A master that does not answer for two or three is replaced by its replica; the other
// slots are served meanwhile. The servers are killed when the test ends. Where there is no redis-server the test is
// skipped, or failed if $CI is set. The options apply to each server.
func Cluster(tb testing.TB, opts ...Option) *RedisCluster {
	tb.Helper()
	procs := newCluster(binary(tb), tb.TempDir, opts)
	tb.Cleanup(func() {
		for _, p := range procs {
			p.close()
		}
	})
	if err := startCluster(procs); err != nil {
		tb.Fatal(err)
	}
	return clusterOf(tb, procs)
}

// SharedCluster is [Shared] with a cluster: use it with keys from [Key], and neither move slots nor harm a server.
func SharedCluster(tb testing.TB) *RedisCluster {
	tb.Helper()
	path := binary(tb)
	sharedCluster.once.Do(func() {
		dir := func() string {
			dir, err := os.MkdirTemp("", sharedDirs)
			if err != nil {
				sharedCluster.err = err
			}
			return dir
		}
		forgetSharedClusters()
		sharedCluster.procs = newCluster(path, dir, nil)
		if sharedCluster.err == nil {
			sharedCluster.err = startCluster(sharedCluster.procs)
		}
		for _, p := range sharedCluster.procs {
			// No test harms it, and on a busy machine a server may not answer for a second.
			if sharedCluster.err == nil {
				_, sharedCluster.err = p.do("CONFIG", "SET", "cluster-node-timeout", "60000")
			}
		}
	})
	if sharedCluster.err != nil {
		tb.Fatal(sharedCluster.err)
	}
	return clusterOf(tb, sharedCluster.procs)
}

// sharedDirs are where the servers of shared clusters keep what they know of each other. One that cannot write that
// down any more ends, so it stays until the test binary has ended.
const sharedDirs = "lockgen-cluster*"

// forgetSharedClusters removes what those of earlier test binaries have left, which no test runs for as long.
func forgetSharedClusters() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), sharedDirs))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 2*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

func clusterOf(tb testing.TB, procs []*process) *RedisCluster {
	c := &RedisCluster{tb: tb, elected: map[*RedisServer]time.Time{}}
	for _, p := range procs {
		c.nodes = append(c.nodes, &RedisServer{tb: tb, proc: p})
	}
	return c
}

func newCluster(binary string, dir func() string, opts []Option) []*process {
	procs := make([]*process, 2*shards)
	for i := range procs {
		p := newProcess(dir())
		p.binary = binary
		p.cluster = true
		for name, value := range map[string]string{
			"cluster-enabled":                 "yes",
			"cluster-announce-ip":             "127.0.0.1",
			"cluster-node-timeout":            millis(clusterTimeout),
			"cluster-require-full-coverage":   "no",
			"cluster-replica-validity-factor": "0",
			"repl-diskless-sync-delay":        "0",
		} {
			WithConfig(name, value)(p)
		}
		for _, opt := range opts {
			opt(p)
		}
		procs[i] = p
	}
	return procs
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// startCluster starts the servers and makes a cluster of them.
func startCluster(procs []*process) error {
	errs := make(chan error, len(procs))
	for _, p := range procs {
		go func() { errs <- p.start() }()
	}
	for range procs {
		if err := <-errs; err != nil {
			return err
		}
	}
	ids := make([]string, len(procs))
	for i, p := range procs {
		reply, err := p.do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if ids[i], err = reply.ToString(); err != nil {
			return err
		}
		if _, err := p.do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < shards {
			first, last := i*Slots/shards, (i+1)*Slots/shards-1
			if _, err := p.do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
				return err
			}
		}
		for _, q := range procs[:i] {
			if _, err := p.do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(q.peerPort()), strconv.Itoa(q.bus)); err != nil {
				return err
			}
		}
	}
	knows := func(p *process) bool {
		for _, id := range ids {
			if n, err := p.node(id); err != nil || n == nil || n.has("handshake") {
				return false
			}
		}
		return true
	}
	for i, p := range procs {
		if err := await("the servers of a cluster to know each other", func() bool { return knows(p) }); err != nil {
			return err
		}
		if i < shards {
			continue
		}
		if _, err := p.do("CLUSTER", "REPLICATE", ids[i-shards]); err != nil {
			return err
		}
	}
	for i, p := range procs {
		if err := await("a cluster to serve its slots", func() bool {
			return p.tells("cluster_state:ok", "CLUSTER", "INFO") && p.tells("cluster_slots_ok:16384", "CLUSTER", "INFO") &&
				(i < shards && p.tells("slave0:", "INFO", "replication") || p.tells("master_link_status:up", "INFO", "replication"))
		}); err != nil {
			return err
		}
	}
	return nil
}

// await waits until holds does.
func await(what string, holds func() bool) error {
	over := time.Now().Add(opTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(over) {
			return fmt.Errorf("redistest: waited for %s for %v", what, opTimeout)
		}
		<-tick.C
	}
	return nil
}

// tells reports whether the answer to a command contains text.
func (p *process) tells(text string, command ...string) bool {
	reply, err := p.do(command...)
	if err != nil {
		return false
	}
	said, err := reply.ToString()
	return err == nil && strings.Contains(said, text)
}

// A clusterNode is one line of CLUSTER NODES.
type clusterNode struct {
	id, addr, flags, master, link string
	slots                         []string
}

func (n *clusterNode) has(flag string) bool {
	return slices.Contains(strings.Split(n.flags, ","), flag)
}

// table returns what p knows of the nodes of the cluster.
func (p *process) table() ([]*clusterNode, error) {
	reply, err := p.do("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	text, err := reply.ToString()
	if err != nil {
		return nil, err
	}
	var all []*clusterNode
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // a verbatim string
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(words[1], "@")
		all = append(all, &clusterNode{id: words[0], addr: addr, flags: words[2], master: words[3], link: words[7], slots: words[8:]})
	}
	return all, nil
}

// node returns the entry of the node id at p, or nil.
func (p *process) node(id string) (*clusterNode, error) {
	all, err := p.table()
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.id == id {
			return n, nil
		}
	}
	return nil, nil
}

// Nodes returns the servers: the masters that the cluster began with, then their replicas in the same order. Which
// of them are masters changes when one is replaced.
func (c *RedisCluster) Nodes() []*RedisServer { return slices.Clone(c.nodes) }

// Addrs returns the addresses of all servers.
func (c *RedisCluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// URL returns the addresses in the form redis://host:port?addr=host:port&addr=...
func (c *RedisCluster) URL() string {
	var others []*process
	for _, n := range c.nodes[1:] {
		others = append(others, n.proc)
	}
	return c.nodes[0].proc.url(others...)
}

// NewClient returns a client of the cluster. The edits are applied to the options before it connects. It is closed
// when the test ends, if it was not closed before.
func (c *RedisCluster) NewClient(edits ...func(*rueidis.ClientOption)) rueidis.Client {
	c.tb.Helper()
	opt := rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true}
	for _, edit := range edits {
		edit(&opt)
	}
	rc, err := rueidis.NewClient(opt)
	if err != nil {
		c.tb.Fatalf("redistest: connect to a cluster: %v", err)
	}
	c.tb.Cleanup(rc.Close)
	return rc
}

// Slot returns the slot of a key.
func (c *RedisCluster) Slot(key string) int {
	c.tb.Helper()
	slot, err := c.alive().Do("CLUSTER", "KEYSLOT", key).AsInt64()
	if err != nil {
		c.tb.Fatalf("redistest: slot of %q: %v", key, err)
	}
	return int(slot)
}

// Master returns the server that has the slot of key, according to most of the living servers that answer.
func (c *RedisCluster) Master(key string) *RedisServer {
	c.tb.Helper()
	return c.Owner(c.Slot(key))
}

// Owner returns the server that has the slot, according to most of the servers that answer.
func (c *RedisCluster) Owner(slot int) *RedisServer {
	c.tb.Helper()
	votes := map[string]int{}
	best := ""
	for _, n := range c.nodes {
		if !n.Running() {
			continue
		}
		all, err := n.proc.table()
		if err != nil {
			continue
		}
		for _, node := range all {
			if !node.owns(slot) {
				continue
			}
			if votes[node.addr]++; votes[node.addr] > votes[best] {
				best = node.addr
			}
		}
	}
	for _, n := range c.nodes {
		if n.Addr() == best {
			return n
		}
	}
	c.tb.Fatalf("redistest: nobody has the slot %d", slot)
	return nil
}

// owns reports whether the node is said to have the slot.
func (n *clusterNode) owns(slot int) bool {
	for _, s := range n.slots {
		first, last, _ := strings.Cut(s, "-")
		if last == "" {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err == nil && err2 == nil && a <= slot && slot <= b {
			return true
		}
	}
	return false
}

// votesLast is for how long a server counts the votes that once made it a master: made one again sooner, it asks for
// none, and is no master for the others.
const votesLast = 6 * time.Second

// Running reports whether the server runs: it was not killed, and is not stopped.
func (s *RedisServer) Running() bool {
	s.proc.mu.Lock()
	defer s.proc.mu.Unlock()
	return s.proc.run != nil && !s.proc.run.stopped
}
