package lockrt_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// An authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key, pool: x509.NewCertPool(), dir: t.TempDir()}
	a.cert = a.sign(t, "ca", &key.PublicKey, nil)
	a.pool.AddCert(a.cert)
	return a
}

// sign makes a certificate, by the authority's own hand if there is no parent, and leaves it in a file.
func (a *authority) sign(t *testing.T, name string, public *ecdsa.PublicKey, parent *x509.Certificate) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	require.NoError(t, err)
	a.write(t, name+".crt", "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// issue returns a certificate with its key, and leaves both in files.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := a.sign(t, name, &key.PublicKey, a.cert)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a.write(t, name+".key", "EC PRIVATE KEY", der)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// servers has servers show a certificate of the authority and ask for one.
func (a *authority) servers(t *testing.T) redistest.Option {
	t.Helper()
	a.issue(t, "server")
	return redistest.WithTLS(a.file("server.crt"), a.file("server.key"), a.file("ca.crt"))
}

// client returns the configuration of a client with a certificate of the authority.
func (a *authority) client(t *testing.T) *tls.Config {
	t.Helper()
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.pool, Certificates: []tls.Certificate{a.issue(t, "client")}}
}

// clientFrom returns a Client that sends through a client of its user's own.
func clientFrom(t *testing.T, option rueidis.ClientOption, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	option.ForceSingleClient = true
	rc, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(rc.Close)
	c, err := lockrt.New(rc, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// hostOf returns the host and port that a URL names.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Host
}

// served is what everyStep says of a server that permits everything.
const served = `^wait for Redisson: lockgen: lock "order:1": not acquired after [^\n]*\n$`

// TestTLS shows that everything works over connections that are secured, where server and client show certificates
// of a private authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	servers, config := a.servers(t), a.client(t)
	t.Run("Open", func(t *testing.T) {
		t.Parallel()
		server := redistest.Server(t, servers)
		require.Regexp(t, served, everyStep(t, single(server), func(opts lockrt.Options) *lockrt.Client {
			opts.TLS = config
			return clientOf(t, server.URL(), opts)
		}))
	})
	t.Run("New", func(t *testing.T) {
		t.Parallel()
		server := redistest.Server(t, servers)
		require.Regexp(t, served, everyStep(t, single(server), func(opts lockrt.Options) *lockrt.Client {
			return clientFrom(t, rueidis.ClientOption{InitAddress: []string{hostOf(t, server.URL())}, TLSConfig: config}, opts)
		}))
	})
}

// TestTLS_Refusals shows what is said when the two do not trust each other, or nobody asked for security.
func TestTLS_Refusals(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	host := hostOf(t, redistest.Server(t, a.servers(t)).URL())
	own := []tls.Certificate{a.issue(t, "client")}
	tests := []struct {
		name, scheme string
		config       *tls.Config
		want         string
	}{
		{"no certificate", "rediss", &tls.Config{RootCAs: a.pool}, "lockgen: open: "}, // the server hangs up, or says why
		{"somebody else's certificate", "rediss", &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{stranger.issue(t, "client")}}, "lockgen: open: "},
		{"unknown authority", "rediss", &tls.Config{RootCAs: stranger.pool, Certificates: own}, "lockgen: open: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"another name", "rediss", &tls.Config{RootCAs: a.pool, Certificates: own, ServerName: "redis.example"}, "redis.example"},
		{"no configuration", "rediss", nil, "lockgen: open: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"not secured", "redis", nil, "lockgen: open: "},
		{"wrong scheme", "redis", &tls.Config{RootCAs: a.pool, Certificates: own}, "lockgen: Options.TLS: unusable option: the url begins with redis://, not with rediss://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := lockrt.Open(t.Context(), tt.scheme+"://"+host, lockrt.Options{TLS: tt.config, OpTimeout: patience}) // a third of it is for the handshake
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestTLS_Expired shows that a call says that Redis does not answer while its certificate is not valid, and that an Unlock says that the lease
// is lost if the key was deleted before anything was sent.
func TestTLS_Expired(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := redistest.Server(t, a.servers(t))
	var expired atomic.Bool
	refused := make(chan struct{}, 1)
	config := a.client(t)
	config.Time = func() time.Time { // of each handshake
		if !expired.Load() {
			return time.Now()
		}
		select {
		case refused <- struct{}{}:
		default:
		}
		return time.Now().Add(48 * time.Hour)
	}
	c := clientOf(t, server.URL(), lockrt.Options{TLS: config, Tracking: lockrt.TrackingOff, OpTimeout: patience})
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)

	expired.Store(true)
	server.Do("CLIENT", "KILL", "TYPE", "normal")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	for trusted := true; trusted; { // a request may meet the end of the old connection
		_, err := c.CountDownLatch("latch").Count(patient(t))
		require.ErrorIs(t, err, lockrt.ErrUnavailable)
		_, met := errors.AsType[*tls.CertificateVerificationError](err)
		trusted = !met
	}

	server.Do("DEL", "k")
	unlocked := later(func() error { return lease.Unlock(patient(t)) })
	for range 5 {
		receive(t, refused, "a handshake")
	}
	expired.Store(false)
	require.ErrorIs(t, receive(t, unlocked, "the end of Unlock"), lockrt.ErrLost)
}

// TestUnixSocket shows that everything works over a socket in the file system.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "lockgen") // the name of a socket must not be long
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	serve := func(t *testing.T, name string) (*redistest.RedisServer, string) {
		socket := filepath.Join(dir, name+".sock")
		return redistest.Server(t, redistest.WithConfig("unixsocket", socket)), socket
	}
	t.Run("Open", func(t *testing.T) {
		t.Parallel()
		server, socket := serve(t, "open")
		require.Regexp(t, served, everyStep(t, single(server), func(opts lockrt.Options) *lockrt.Client {
			return clientOf(t, "unix://"+socket, opts)
		}))
	})
	t.Run("New", func(t *testing.T) {
		t.Parallel()
		server, socket := serve(t, "new")
		option := rueidis.MustParseURL("unix://" + socket)
		require.Regexp(t, served, everyStep(t, single(server), func(opts lockrt.Options) *lockrt.Client {
			return clientFrom(t, option, opts)
		}))
	})
	_, err = lockrt.Open(t.Context(), "unix://"+filepath.Join(dir, "none.sock"), lockrt.Options{})
	require.ErrorContains(t, err, "no such file")
}

// A separable is a primitive that is held by one and waited for by another one.
type separable struct {
	name       string
	hold, wait func(ctx context.Context, c *lockrt.Client, key string) (give func() error, err error)
}

func separables() (all []separable) {
	add := func(name string, take func(ctx context.Context, c *lockrt.Client, key string) (func() error, error)) {
		all = append(all, separable{name, take, take})
	}
	lock := func(ctx context.Context, l lockrt.Locker) (func() error, error) {
		lease, err := l.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return lease.Unlock(context.WithoutCancel(ctx)) }, nil
	}
	for name, locker := range exclusives {
		add(name, func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
			return lock(ctx, locker(c, key))
		})
	}
	all = append(all, separable{
		"RWMutex, who reads",
		func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
			return lock(ctx, c.RWMutex(key))
		},
		func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
			return lock(ctx, c.RWMutex(key).RLocker())
		},
	})
	add("Semaphore", func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
		s := c.Semaphore(key, 1)
		return func() error { return s.Release(context.WithoutCancel(ctx), 1) }, s.Acquire(ctx, 1)
	})
	add("PermitSemaphore", func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
		p, err := c.PermitSemaphore(key, 1).Acquire(ctx)
		return func() error { return p.Release(context.WithoutCancel(ctx)) }, err
	})
	return append(all, separable{
		"CountDownLatch",
		func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
			l := c.CountDownLatch(key)
			_, err := l.SetCount(ctx, 1)
			return func() error { _, err := l.CountDown(context.WithoutCancel(ctx)); return err }, err
		},
		func(ctx context.Context, c *lockrt.Client, key string) (func() error, error) {
			return func() error { return nil }, c.CountDownLatch(key).Wait(ctx)
		},
	})
}

// TestDatabases shows that a key of one database has nothing to do with the same key of another one. Channels have
// no database, so waiters hear what happens in the other one; that must not let anybody in.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for _, s := range separables() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			ctx := patient(t)
			hooks, waiting, _ := watch()
			opened := clientOf(t, server.URL()+"/1", lockrt.Options{})
			given := clientFrom(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, SelectDB: 1}, lockrt.Options{Hooks: hooks})
			const key = "order"
			give, err := s.hold(ctx, opened, key)
			require.NoError(t, err)
			var over atomic.Bool
			got := later(func() error {
				give, err := s.wait(ctx, given, key)
				if !over.Load() {
					t.Error("let in while somebody else held it")
				}
				if err != nil {
					return err
				}
				return give()
			})
			receive(t, waiting, "the waiter in database 1")

			other, another := clientOf(t, server.URL()+"/2", lockrt.Options{}), clientOf(t, server.URL()+"/2", lockrt.Options{})
			for range 20 {
				give, err := s.hold(ctx, other, key)
				require.NoError(t, err)
				next := later(func() error {
					give, err := s.wait(ctx, another, key)
					if err != nil {
						return err
					}
					return give()
				})
				require.NoError(t, give())
				require.NoError(t, <-next)
			}
			channels, err := server.Do("PUBSUB", "CHANNELS").AsStrSlice()
			require.NoError(t, err)
			for _, channel := range channels { // whatever a Java program of another database says
				if strings.HasPrefix(channel, "redisson_") {
					server.Do("PUBLISH", channel, "0")
				}
			}
			over.Store(true)
			require.NoError(t, give())
			require.NoError(t, <-got)
		})
	}
}
