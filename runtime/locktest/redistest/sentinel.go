package redistest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// MasterSet is the name under which the sentinels of [Sentinel] know their master.
const MasterSet = "lockgen"

// SentinelChannel is what sentinels talk on, over the servers that they watch.
const SentinelChannel = "__sentinel__:hello"

// sentinelReady is what a sentinel logs once it watches its master.
const sentinelReady = "Sentinel ID is"

// A SentinelGroup is a master with two replicas, watched by three sentinels. Each of the six is a server of its
// own, to be killed, stopped and started again. Its methods fail the test when they do not succeed, so call them
// from the test's goroutine.
type SentinelGroup struct {
	// Servers are the master and its replicas, in the order in which they were started: the first one was
	// the master then.
	Servers []*RedisServer
	// Sentinels watch them. Two of them agree on a failover.
	Sentinels []*RedisServer

	tb testing.TB
}

// SentinelDown is how long a master of [Sentinel] does not answer until it is replaced. That takes about a
// second more.
const SentinelDown = 1500 * time.Millisecond

// Sentinel starts one master, two replicas of it and three sentinels, and returns when they know each other and
// the replicas have what the master has. The options are those of the master and the replicas; the sentinels
// share only TLS and the password. A server that is
// killed and started again comes back as a master, until the sentinels make it a replica. All end with the test.
func Sentinel(tb testing.TB, opts ...Option) *SentinelGroup {
	tb.Helper()
	g := &SentinelGroup{tb: tb}
	opts = append([]Option{
		WithConfig("repl-diskless-sync-delay", "0"), // a replica need not wait for others before it is given what the master has
		WithConfig("repl-ping-replica-period", "1"),
		WithConfig("rdb-del-sync-files", "yes"), // a restart must not find copied data
	}, opts...)
	g.Servers = startAll(tb, 3, func(p *process) {
		for _, opt := range opts {
			opt(p)
		}
	})
	master := g.Servers[0]
	for _, s := range g.Servers[1:] {
		s.follow(master)
	}
	g.Sentinels = startAll(tb, 3, func(p *process) {
		p.watches, p.tls, p.password = master.proc, master.proc.tls, master.proc.password
	})
	for _, s := range g.Sentinels {
		s.hurry()
	}
	g.AwaitReplicas(2)
	g.settle()
	return g
}

// settle waits until all sentinels know the same master, its replicas and each other, and are at rest.
func (g *SentinelGroup) settle() {
	g.tb.Helper()
	g.await("the sentinels to agree", func() error {
		master, err := g.master()
		if err != nil {
			return err
		}
		for _, s := range g.Sentinels {
			reply, err := s.Try("SENTINEL", "MASTER", MasterSet)
			if err != nil {
				return err
			}
			info, err := reply.AsStrMap()
			if err != nil {
				return err
			}
			if net.JoinHostPort(info["ip"], info["port"]) != master.proc.peerAddr() || info["flags"] != "master" ||
				info["num-slaves"] != "2" || info["num-other-sentinels"] != "2" {
				return fmt.Errorf("%s knows %s:%s (%s), %s replicas and %s sentinels", s.Addr(), info["ip"], info["port"], info["flags"], info["num-slaves"], info["num-other-sentinels"])
			}
			if _, err := s.Try("SENTINEL", "CKQUORUM", MasterSet); err != nil {
				return err
			}
		}
		return nil
	})
}

// startAll starts n servers at the same time.
func startAll(tb testing.TB, n int, opt Option) []*RedisServer {
	tb.Helper()
	servers, errs := make([]*RedisServer, n), make([]error, n)
	path := binary(tb)
	var starts sync.WaitGroup
	for i := range servers {
		p := newProcess(tb.TempDir())
		opt(p)
		p.binary = path
		servers[i] = &RedisServer{tb: tb, proc: p}
		tb.Cleanup(p.close)
		starts.Go(func() { errs[i] = p.start() })
	}
	starts.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return servers
}

// follow makes s a replica of master.
func (s *RedisServer) follow(master *RedisServer) {
	s.tb.Helper()
	host, port, _ := net.SplitHostPort(master.proc.peerAddr())
	s.Do("REPLICAOF", host, port)
}

// hurry makes a sentinel look and talk several times a second, where it has a command for that: Redis from 7.0 on. A
// delayed sentinel, as on a busy machine, must not pause for half a minute.
func (s *RedisServer) hurry() {
	_, _ = s.Try("SENTINEL", "DEBUG",
		"INFO-PERIOD", "200", "PING-PERIOD", "300", // for five of these it believes what a replica said, asked each second when the master is down
		"ASK-PERIOD", "100", "PUBLISH-PERIOD", "200",
		"TILT-TRIGGER", "20000", "TILT-PERIOD", "1000", "ELECTION-TIMEOUT", "2000")
}

// sentinelArgs are the arguments of a sentinel. It keeps what it knows in its configuration.
func (p *process) sentinelArgs() []string {
	name := filepath.Join(p.dir, fmt.Sprintf("sentinel-%d.conf", p.port))
	if _, err := os.Stat(name); err != nil {
		text := fmt.Sprintf(`port %[1]d
bind 127.0.0.1
protected-mode no
daemonize no
dir %[2]q
sentinel monitor %[3]s 127.0.0.1 %[4]d 2
sentinel down-after-milliseconds %[3]s %[5]d
sentinel failover-timeout %[3]s 2000
sentinel parallel-syncs %[3]s 2
`, p.port, p.dir, MasterSet, p.watches.peerPort(), SentinelDown.Milliseconds())
		if p.password != "" {
			text += fmt.Sprintf("sentinel auth-pass %[1]s %[2]q\nsentinel sentinel-pass %[2]q\n", MasterSet, p.password)
		}
		for _, directive := range p.secured() {
			text += fmt.Sprintf("%s %q\n", directive[0], directive[1])
		}
		_ = os.WriteFile(name, []byte(text), 0o600) // the sentinel reports the error
	}
	return []string{name, "--sentinel"}
}

// URL returns the address of the group in the form redis://host:port?addr=host:port&master_set=name, of the
// sentinels, and with [WithPassword] their password.
func (g *SentinelGroup) URL() string {
	p := g.Sentinels[0].proc
	text := p.url(g.Sentinels[1].proc, g.Sentinels[2].proc) + "&master_set=" + MasterSet
	if p.password != "" {
		text += "&sentinel_password=" + url.QueryEscape(p.password)
	}
	return text
}

// Addrs returns the addresses of the sentinels.
func (g *SentinelGroup) Addrs() []string {
	addrs := make([]string, len(g.Sentinels))
	for i, s := range g.Sentinels {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Master returns the server that all sentinels which answer take for the master.
func (g *SentinelGroup) Master() *RedisServer {
	g.tb.Helper()
	var master *RedisServer
	g.await("a master", func() (err error) { master, err = g.master(); return err })
	return master
}

func (g *SentinelGroup) master() (*RedisServer, error) {
	addr, votes := "", 0
	for _, s := range g.Sentinels {
		reply, err := s.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet)
		if err != nil {
			continue
		}
		at, err := reply.AsStrSlice()
		if err != nil || len(at) != 2 {
			continue
		}
		said := net.JoinHostPort(at[0], at[1])
		if votes > 0 && said != addr {
			return nil, fmt.Errorf("one sentinel names %s, another one %s", addr, said)
		}
		addr = said
		votes++
	}
	if votes < 2 {
		return nil, errors.New("no two sentinels answer")
	}
	for _, s := range g.Servers {
		if s.proc.peerAddr() == addr {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the sentinels name %s, which is none of the servers", addr)
}

// Replicas returns the servers that are not the master, whatever their state.
func (g *SentinelGroup) Replicas() []*RedisServer {
	g.tb.Helper()
	master := g.Master()
	var replicas []*RedisServer
	for _, s := range g.Servers {
		if s != master {
			replicas = append(replicas, s)
		}
	}
	return replicas
}

// AwaitMaster waits until a server other than old is the master, and says so itself.
func (g *SentinelGroup) AwaitMaster(old *RedisServer) *RedisServer {
	g.tb.Helper()
	var master *RedisServer
	g.await("another master than "+old.Addr(), func() (err error) {
		if master, err = g.master(); err != nil {
			return err
		}
		if master == old {
			return errors.New("it is still the master")
		}
		info, err := master.replication()
		if err == nil && info["role"] != "master" {
			err = fmt.Errorf("%s is a %s yet", master.Addr(), info["role"])
		}
		return err
	})
	return master
}

// AwaitReplicas waits until the master has n replicas that have all that it has.
func (g *SentinelGroup) AwaitReplicas(n int) {
	g.tb.Helper()
	g.await(strconv.Itoa(n)+" replicas", func() error {
		master := g.Servers[0]
		if g.Sentinels != nil {
			var err error
			if master, err = g.master(); err != nil {
				return err
			}
		}
		// It waits for what was written before the command before it, over the same connection.
		if _, err := master.Try("PING"); err != nil {
			return err
		}
		reply, err := master.Try("WAIT", strconv.Itoa(n), "1000")
		if err != nil {
			return err
		}
		if got, err := reply.AsInt64(); err != nil || got != int64(n) {
			return fmt.Errorf("%s has %d (%v)", master.Addr(), got, err)
		}
		return nil
	})
}

// Failover makes a replica the master in an orderly way, and waits until it is and the old master knows it. It returns the new
// one.
func (g *SentinelGroup) Failover() *RedisServer {
	g.tb.Helper()
	old := g.Master()
	g.await("a failover", func() error {
		// It is refused while another one goes on, and given up on a machine that is too busy.
		_, refused := g.Sentinels[0].Try("SENTINEL", "FAILOVER", MasterSet)
		master, err := g.master()
		if err == nil && master == old {
			err = errors.Join(errors.New("it is still the master"), refused)
		}
		return err
	})
	master := g.AwaitMaster(old)
	g.await("the old master to know", func() error {
		info, err := old.replication()
		if err == nil && info["role"] != "slave" {
			err = fmt.Errorf("%s is a %s yet", old.Addr(), info["role"])
		}
		return err
	})
	g.settle()
	return master
}

// replication returns what a server says of its replication.
func (s *RedisServer) replication() (map[string]string, error) {
	reply, err := s.Try("INFO", "replication")
	if err != nil {
		return nil, err
	}
	text, err := reply.ToString()
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// await asks until f has no error.
func (g *SentinelGroup) await(what string, f func() error) {
	g.tb.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(2 * opTimeout)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-limit:
			g.tb.Fatalf("redistest: waiting for %s: %v", what, err)
		case <-ticker.C:
		}
	}
}
