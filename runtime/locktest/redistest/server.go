package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// opTimeout bounds what the helpers themselves ask of a server. It is generous
// because it only ever ends a test that has already gone wrong.
const opTimeout = 20 * time.Second

// A RedisServer is a running redis-server as one test sees it. Its methods fail
// the test when they do not succeed, so call them from the test's goroutine;
// [RedisServer.Try] is for other goroutines.
type RedisServer struct {
	tb   testing.TB
	proc *process

	once   sync.Once
	client rueidis.Client
}

// An Option changes how [Server] starts its server.
type Option func(*process)

// WithConfig sets a directive of redis.conf, for example WithConfig("appendonly", "yes"). The files
// on disk stay until the test ends, so [RedisServer.Restart] finds them again.
func WithConfig(name string, values ...string) Option {
	return func(p *process) {
		p.config = append(p.config, "--"+name)
		p.config = append(p.config, values...)
	}
}

// WithEnv adds variables, in the form name=value, to the environment of the server.
func WithEnv(vars ...string) Option {
	return func(p *process) { p.env = append(p.env, vars...) }
}

// tlsFiles are the names of files.
type tlsFiles struct{ cert, key, authority string }

// WithTLS makes servers listen on one more port, where they show a certificate and require one of the same authority
// from clients. They talk to each other only in this way. Their URLs name that port.
func WithTLS(certFile, keyFile, authorityFile string) Option {
	return func(p *process) { p.tls = &tlsFiles{certFile, keyFile, authorityFile} }
}

// WithPassword makes servers require a password, from each other too. It is in their URLs.
func WithPassword(password string) Option {
	return func(p *process) { p.password = password }
}

// secured returns the directives for TLS and passwords.
func (p *process) secured() (directives [][2]string) {
	if p.tls != nil {
		directives = append(directives,
			[2]string{"tls-port", strconv.Itoa(p.peerPort())},
			[2]string{"tls-cert-file", p.tls.cert}, [2]string{"tls-key-file", p.tls.key}, [2]string{"tls-ca-cert-file", p.tls.authority},
			[2]string{"tls-auth-clients", "yes"}, [2]string{"tls-replication", "yes"}, [2]string{"tls-cluster", "yes"})
	}
	if p.password != "" {
		directives = append(directives, [2]string{"requirepass", p.password})
		if p.watches == nil {
			directives = append(directives, [2]string{"masterauth", p.password})
		}
	}
	return directives
}

// url is where clients reach some servers.
func (p *process) url(others ...*process) string {
	u := url.URL{Scheme: "redis", Host: p.peerAddr()}
	if p.tls != nil {
		u.Scheme = "rediss"
	}
	if p.password != "" {
		u.User = url.UserPassword("", p.password)
	}
	var q []string
	for _, other := range others {
		q = append(q, "addr="+other.peerAddr())
	}
	u.RawQuery = strings.Join(q, "&")
	return u.String()
}

// Server starts a server for this test alone and returns once it answers. It is
// killed when the test ends. Where there is no redis-server the test is skipped,
// or failed if $CI is set.
func Server(tb testing.TB, opts ...Option) *RedisServer {
	tb.Helper()
	p := newProcess(tb.TempDir())
	for _, opt := range opts {
		opt(p)
	}
	p.binary = binary(tb)
	if err := p.start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.close)
	return &RedisServer{tb: tb, proc: p}
}

// Addr returns the host and port of the server. It stays the same for life.
func (s *RedisServer) Addr() string { return s.proc.addr() }

// URL returns the address in the form redis://host:port. With [WithTLS] it begins with rediss:// and has another port than
// Addr.
func (s *RedisServer) URL() string { return s.proc.url() }

// PID returns the process id of the running server, 0 while it is killed.
func (s *RedisServer) PID() int { return s.proc.pid() }

// Client returns a client of the server, the same one at every call of one test.
// It is closed when the test ends.
func (s *RedisServer) Client() rueidis.Client {
	s.tb.Helper()
	s.once.Do(func() { s.client = s.NewClient() })
	if s.client == nil {
		s.tb.Fatalf("redistest: no client of %s", s.Addr())
	}
	return s.client
}

// NewClient returns another client of the server, with connections of its own.
// The edits are applied to the options before it connects. It is closed when the
// test ends, if it was not closed before.
func (s *RedisServer) NewClient(edits ...func(*rueidis.ClientOption)) rueidis.Client {
	s.tb.Helper()
	password := func(o *rueidis.ClientOption) { o.Password = s.proc.password }
	return NewClient(s.tb, s.Addr(), append([]func(*rueidis.ClientOption){password}, edits...)...)
}

// connectFor is for how long a client tries to connect to a server that does not answer in time: a machine may stand still for longer than
// a client waits.
const connectFor = 20 * time.Second

// NewClient connects to one server, or one [FaultProxy], by its address. The client
// is closed when the test ends, if it was not closed before.
func NewClient(tb testing.TB, addr string, edits ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	opt := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	for _, edit := range edits {
		edit(&opt)
	}
	c, err := rueidis.NewClient(opt)
	var late interface{ Timeout() bool }
	for start := time.Now(); errors.As(err, &late) && late.Timeout() && time.Since(start) < connectFor; {
		c, err = rueidis.NewClient(opt)
	}
	if err != nil {
		tb.Fatalf("redistest: connect to %s: %v", addr, err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Do sends one command on a connection of its own and returns the reply, which may be null. An
// error reply fails the test.
func (s *RedisServer) Do(args ...string) rueidis.RedisResult {
	s.tb.Helper()
	r, err := s.Try(args...)
	if err != nil {
		s.tb.Fatal(err)
	}
	return r
}

// Try is [RedisServer.Do] with the error for the caller. It may be called from any
// goroutine. A null reply is not an error.
func (s *RedisServer) Try(args ...string) (rueidis.RedisResult, error) {
	return s.proc.do(args...)
}

// CommandStats returns how often each command ran since the server started or
// since CONFIG RESETSTAT. Names are lower case, subcommands are written
// "script|load". Commands sent by scripts count too.
func (s *RedisServer) CommandStats() map[string]int64 {
	s.tb.Helper()
	info, err := s.Do("INFO", "commandstats").ToString()
	if err != nil {
		s.tb.Fatalf("redistest: command statistics: %v", err)
	}
	stats := make(map[string]int64)
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		name, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if stats[name], err = strconv.ParseInt(calls, 10, 64); err != nil {
			s.tb.Fatalf("redistest: command statistics: %q: %v", lines.Text(), err)
		}
	}
	return stats
}

// Kill ends the server at once, as a crash does, and returns when it is gone. A
// server that is killed already stays so.
func (s *RedisServer) Kill() { s.proc.kill() }

// Stop suspends the server: connections stay open, nothing is answered.
func (s *RedisServer) Stop() {
	s.tb.Helper()
	if err := s.proc.suspend(); err != nil {
		s.tb.Fatal(err)
	}
}

// Cont lets a stopped server run on. It then answers what it was sent meanwhile.
func (s *RedisServer) Cont() {
	s.tb.Helper()
	if err := s.proc.resume(); err != nil {
		s.tb.Fatal(err)
	}
}

// Restart kills the server, if it runs, and starts it again on the same port. It
// comes back empty unless [WithConfig] asked for persistence.
func (s *RedisServer) Restart() {
	s.tb.Helper()
	s.proc.kill()
	if err := s.proc.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// do runs one command on the connection of the helpers, which lives as long as the
// server process does.
func (p *process) do(args ...string) (rueidis.RedisResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	c, err := p.adminClient()
	if err != nil {
		return rueidis.RedisResult{}, err
	}
	r := c.Do(ctx, c.B().Arbitrary(args...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return r, fmt.Errorf("redistest: %s: %s: %w%s", p.addr(), strings.Join(args, " "), err, p.lastWords())
	}
	return r, nil
}

// lastWords returns the output of a server that ended by itself.
func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return ""
	}
	select {
	case <-p.run.exited:
		return "; it ended:\n" + p.run.output()
	default:
		return ""
	}
}
