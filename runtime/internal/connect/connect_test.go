package connect

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func options() Options {
	return Options{
		Watchdog: 30 * time.Second, OpTimeout: 3 * time.Second, Host: "a host:1", Logger: slog.New(slog.DiscardHandler),
		Retry: func(int) time.Duration { return time.Millisecond },
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		mode    rueidis.ClientMode
		masters string
	}{
		"redis://h:1":                                     {rueidis.ClientModeStandalone, ""},
		"redis://h:1?cluster=false":                       {rueidis.ClientModeStandalone, ""},
		"redis://h:1?cluster=true":                        {rueidis.ClientModeCluster, ""},
		"redis://h:1?addr=g:2":                            {rueidis.ClientModeCluster, ""},
		"redis://h:1?master_set=m&addr=g:2":               {rueidis.ClientModeSentinel, "g:2/m"},
		"redis://h:1?master_set=m&sentinel_username=user": {rueidis.ClientModeSentinel, "h:1/m"},
	} {
		at, err := options().address(url)
		require.NoError(t, err, url)
		require.Equal(t, want.mode, at.mode(), url)
		require.Equal(t, want.masters, at.masters(), url)
	}
	for _, url := range []string{"http://h:1", "redis://h:1?cluster=perhaps", "redis://%"} {
		_, err := options().address(url)
		require.Error(t, err, url)
	}
}

// TestAddress_Password shows that a password with a character that is not percent-encoded makes no URL of another server, and that the error does
// not have it.
func TestAddress_Password(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://:s3cret@host:port", "redis://:s3cret%@host", "redis://:#s3cret@host", "redis://:?s3cret@host", "redis://:/s3cret@host:1/0",
		"redis://u:12#s3cret@host", "redis://u:12?s3cret@host:1/0", "redis://u:12/s3cret@host", "redis://u:s3cret#4@host", "redis://u@host:1?a=s3cret%",
		"redis://:?a=s3cret@host", "redis://u:12?a=s3cret@host:1/0",
		"redis://u:12/s3cret?a;b@host", "redis://u:12?db=s3cret&a%@host",
	} {
		_, err := options().address(text)
		require.ErrorIs(t, err, failure.ErrBadOption, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err := options().address("redis://:s3cret@host/abc")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")

	const secret = `@:/?#%+ é&=;`
	at, err := options().address("redis://" + url.UserPassword(secret, secret).String() + "@h:1?master_set=m&sentinel_password=" + url.QueryEscape(secret))
	require.NoError(t, err)
	require.Equal(t, []string{"h:1"}, at.option.InitAddress)
	for _, is := range []string{at.option.Username, at.option.Password, at.option.Sentinel.Password} {
		require.Equal(t, secret, is)
	}
	_, err = options().address("redis://h:1?client_name=a@b&master_set=a@b&sentinel_username=a@b&sentinel_password=a@b")
	require.NoError(t, err, "it is clear what they are")
	at, err = options().address("unix:///a@b?db=1")
	require.NoError(t, err)
	require.Equal(t, []string{"/a@b"}, at.option.InitAddress)
}

// TestAddress_Servers shows that a part of a URL that cannot be read is not left out: the client would connect to other servers.
func TestAddress_Servers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://::1:7000", "redis://::1", "redis://a:1,b:2", "redis://a:1?addr=b", "redis://a:1?addr=", "redis://a:1?addr=::1", "redis://a:1?addr=[::1]", "redis:a:1", "unix:a.sock", "unix:///a#b.sock",
		"redis://a:1?cluster=true;addr=b:1", "redis://a:1?addr=b:1&cluster=%",
	} {
		_, err := options().address(text)
		require.ErrorIs(t, err, failure.ErrBadOption, text)
	}
	at, err := options().address("redis://[::1]:1?addr=[fe80::1%25eth0]:2&addr=b:3")
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:1", "[fe80::1%eth0]:2", "b:3"}, at.option.InitAddress)
}

// TestAddress_Parameters shows that a URL with a misspelt parameter, or with two that contradict each other, is refused: without it, the client would
// take a sentinel or a server of a cluster for a server that has all keys.
func TestAddress_Parameters(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"redis://h:1?clustr=true":                     `"clustr"`,
		"redis://h:1?Cluster=true":                    `"Cluster"`,
		"redis://h:1?mastr_set=m":                     `"mastr_set"`,
		"rediss://h:1?skip_verfy=true":                `"skip_verfy"`,
		"redis://h:1?addr=g:2&master_set=":            "master_set",
		"redis://h:1?cluster=true&master_set=m":       "master_set",
		"redis://h:1?cluster=false&addr=g:2":          "cluster",
		"redis://h:1?master_set=m&sentinel_pasword=p": `"sentinel_pasword"`,
		"redis://h:1?db=1&db=2":                       "db twice",
		"redis://h:1?master_set=m&master_set=n":       "master_set twice",
		"redis://h:1?cluster=false&cluster=true":      "cluster twice",
		"redis://h:1/1?db=2":                          "/1 and db=2",
	} {
		_, err := options().address(text)
		require.ErrorIs(t, err, failure.ErrBadOption, text)
		require.ErrorContains(t, err, part, text)
	}
	for _, text := range []string{
		"redis://h:1?db=1&protocol=2&client_cache=0&client_name=n&dial_timeout=1s&write_timeout=1s&max_retries=0", "rediss://h:1?skip_verify=true",
		"redis://h:1?cluster=true&addr=g:2", "redis://h:1?cluster=false&master_set=m&addr=g:2", "redis://h:1?addr=g:2&addr=f:3", "redis://h:1/2?db=2",
	} {
		at, err := options().address(text)
		require.NoError(t, err, text)
		require.False(t, at.option.DisableRetry, text)
	}
}

// TestAddress_Slash shows that a URL may end with a slash, as tools write it: it names no database.
func TestAddress_Slash(t *testing.T) {
	t.Parallel()
	for text, database := range map[string]int{"redis://h:1/": 0, "redis://h:1/?db=2": 2, "rediss://h:1/?addr=g:2": 0, "redis://u:p%3Fw%2F@h:1/": 0, "redis://h:1": 0, "redis://h:1/3": 3} {
		at, err := options().address(text)
		require.NoError(t, err, text)
		require.Equal(t, database, at.option.SelectDB, text)
		require.Equal(t, "h:1", at.option.InitAddress[0], text)
		if at.option.Username != "" {
			require.Equal(t, "p?w/", at.option.Password)
		}
	}
}

// TestAddress_Socket shows that a URL with two slashes before the path of a socket is refused: the first folder would be its host, which nobody asks.
func TestAddress_Socket(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]string{
		"unix://var/run/x.sock": "is unix:///var/run/x.sock", "unix://x.sock": "is unix:///x.sock", "unix://:s3cret@var/x.sock?db=1": "is unix:///var/x.sock",
		"unix://u:12/s3cret@/x.sock": "percent-encoded",
	} {
		_, err := options().address(text)
		require.ErrorIs(t, err, failure.ErrBadOption, text)
		require.ErrorContains(t, err, right, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
	at, err := options().address("unix://:s3cret@/var/run/x.sock?db=1")
	require.NoError(t, err)
	require.Equal(t, []string{"/var/run/x.sock"}, at.option.InitAddress)
	require.Equal(t, 1, at.option.SelectDB)
}

func TestAddress_TLS(t *testing.T) {
	t.Parallel()
	o := options()
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	at, err := o.address("rediss://h:1")
	require.NoError(t, err)
	require.Equal(t, "h", at.option.TLSConfig.ServerName)
	require.EqualValues(t, tls.VersionTLS13, at.option.TLSConfig.MinVersion)
	require.Empty(t, o.TLS.ServerName, "the caller's own is a copy")
	at, err = o.address("rediss://h:1?cluster=true")
	require.NoError(t, err)
	require.Empty(t, at.option.TLSConfig.ServerName, "each server has its own")
	require.False(t, at.option.TLSConfig.InsecureSkipVerify)
	at, err = o.address("rediss://h:1?skip_verify=true")
	require.NoError(t, err)
	require.True(t, at.option.TLSConfig.InsecureSkipVerify, "the URL says so")
	require.False(t, o.TLS.InsecureSkipVerify, "the caller's own is a copy")
	_, err = o.address("redis://h:1")
	require.ErrorIs(t, err, failure.ErrBadOption)
}

func TestNamed(t *testing.T) {
	t.Parallel()
	o := options()
	require.Equal(t, "lockgen:u:a-host-1:"+strconv.Itoa(os.Getpid()), address{}.named("u", o).ClientName)
	o.Host = ""
	require.Equal(t, "lockgen:u:unknown:"+strconv.Itoa(os.Getpid()), address{}.named("u", o).ClientName)
	o.Anonymous = true
	require.Equal(t, "lockgen:u", address{}.named("u", o).Sentinel.ClientName)
}

func TestConnection(t *testing.T) {
	t.Parallel()
	require.Equal(t, "h:1/m/0", Connection{Masters: "h:1/m", Database: "/0"}.Site([]string{"z:1"}))
	require.Equal(t, "g:2/3", Connection{Database: "/3"}.Site([]string{"h:1", "g:2"}))
	require.Equal(t, "~", Connection{}.Site(nil), "it is not connected yet")
}

// TestOpen shows that one server is asked for nothing, and what a cluster needs that may be away.
func TestOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	conn, err := Open(t.Context(), server.URL(), options())
	require.NoError(t, err)
	defer conn.Redis.Close()
	require.True(t, conn.Owned)
	require.Equal(t, transport.PlainChannels, conn.Channels)
	require.Equal(t, protocol.PublishPlain, conn.Publish())
	require.LessOrEqual(t, conn.Dials, options().OpTimeout)

	over, err := Over(conn.Redis, options())
	require.NoError(t, err)
	require.False(t, over.Owned)
	require.NotEqual(t, conn.UUID, over.UUID)

	away := options()
	away.Late = true
	_, err = Open(t.Context(), server.URL()+"?cluster=true", away)
	require.ErrorIs(t, err, failure.ErrBadOption)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, server.URL(), options())
	require.ErrorIs(t, err, context.Canceled)
}

// TestOpen_Cluster shows that a client of a cluster has the kind of its channels in its name, whether it asks for them or not.
func TestOpen_Cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for variant, of := range map[byte]*transport.Channels{'9': nil, 'a': new(transport.PlainChannels)} {
		o := options()
		o.Channels = of
		conn, err := Open(t.Context(), cluster.URL(), o)
		require.NoError(t, err)
		defer conn.Redis.Close()
		require.Equal(t, string(variant), conn.UUID[19:20])
		require.Equal(t, variant == '9', conn.Publish() == protocol.PublishSharded)
	}
}

// TestDial_KeepsTheName shows that a server which is busy with a script when a client connects does not cost the client its name.
func TestDial_KeepsTheName(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("lua-time-limit", "1"))
	script, ended := server.NewClient(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = script.Do(context.Background(), script.B().Eval().Script("while true do end").Numkeys(0).Build())
	}()
	require.Eventually(t, func() bool {
		_, err := server.Try("GET", "k")
		return err != nil
	}, time.Minute, time.Millisecond, "it is busy")
	at, err := options().address(server.URL() + "/1")
	require.NoError(t, err)
	first, plain := true, at.option.DialCtxFn
	at.option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		if !first {
			_, _ = server.Try("SCRIPT", "KILL")
			<-ended
		}
		first = false
		return plain(ctx, addr, d, secure)
	}
	for {
		rc, err := dial(t.Context(), at.named("uuid", options()))
		if err != nil {
			require.ErrorContains(t, err, "BUSY")
			continue
		}
		name, err := rc.Do(t.Context(), rc.B().ClientGetname().Build()).ToString()
		rc.Close()
		require.NoError(t, err)
		require.Contains(t, name, "lockgen:uuid")
		return
	}
}
