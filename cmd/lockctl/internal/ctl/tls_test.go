package ctl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// issue writes a certificate that is its own authority, for servers and clients, and its private key. It returns the names of the files.
func issue(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// TestTLS shows that every verb reaches servers that ask for a certificate, and whose own is of an authority that the system does not know.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := issue(t, t.TempDir(), "all")
	secured := []string{"-cacert", cert, "-cert", cert, "-key", key}
	server := redistest.Server(t, redistest.WithTLS(cert, key, cert))
	server.Do("HSET", "java", "11111111-1111-4111-9111-111111111111:42", "1")
	for _, test := range []struct {
		verb string
		args []string
		says string
	}{
		{"list", []string{"-scan"}, "java"},
		{"show", []string{"java"}, "java (lock)"},
		{"why", []string{"java"}, "Nobody waits for java."},
		{"deadlocks", nil, "No deadlock."},
		{"doctor", nil, "PING takes"},
		{"run", []string{"k", "--", "echo", "it ran"}, "it ran"},
		{"force", []string{"-yes", "java"}, "java was taken."},
	} {
		s := all(t, server.URL(), append(append([]string{test.verb}, secured...), test.args...)...)
		require.Zero(t, s.code, "%s: %s", test.verb, s.err)
		require.Contains(t, s.out, test.says, test.verb)
	}
	watch := start(t, "lockctl", server.URL(), "", append([]string{"watch"}, secured...)...)
	watch.says(t, "No lock is held or wanted.")

	for _, args := range [][]string{nil, {"-cacert", cert}, {"-cert", cert, "-key", key}} {
		s := ctl(t, server.URL(), append([]string{"list"}, args...)...)
		require.Equal(t, exitNoRedis, s.code, "%v: %s", args, s.out)
	}
	insecure := ctl(t, server.URL()+"?skip_verify=true", "deadlocks", "-cert", cert, "-key", key)
	require.Zero(t, insecure.code, insecure.err)
}

// TestTLS_Deployments shows that lockctl shows its certificate to all servers of a cluster, and to sentinels.
func TestTLS_Deployments(t *testing.T) {
	t.Parallel()
	cert, key := issue(t, t.TempDir(), "all")
	for name, url := range map[string]string{
		"cluster":  redistest.Cluster(t, redistest.WithTLS(cert, key, cert)).URL(),
		"sentinel": redistest.Sentinel(t, redistest.WithTLS(cert, key, cert)).URL(),
	} {
		s := all(t, url, "doctor", "-cacert", cert, "-cert", cert, "-key", key)
		require.Contains(t, s.out, "PING takes", name)
	}
}

// TestTLS_Renewed shows that a new connection shows the certificate that is in the files by then, and the last good one while they do not fit.
func TestTLS_Renewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := issue(t, dir, "client")
	s := security{cert: cert, key: key}
	config, err := s.config()
	require.NoError(t, err)
	shown := func() string {
		pair, err := config.GetClientCertificate(&tls.CertificateRequestInfo{})
		require.NoError(t, err)
		return pair.Leaf.Subject.CommonName
	}
	require.Equal(t, "client", shown())
	renewedCert, renewedKey := issue(t, dir, "renewed")
	require.NoError(t, os.Rename(renewedCert, cert))
	require.Equal(t, "client", shown(), "the key is not replaced yet")
	require.NoError(t, os.Rename(renewedKey, key))
	require.Equal(t, "renewed", shown())
	require.NoError(t, os.Remove(key))
	require.Equal(t, "renewed", shown(), "the certificate of the start may have run out")
}

// TestTLS_BadFiles shows what lockctl says about files and flags for TLS that it cannot use.
func TestTLS_BadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := issue(t, dir, "one")
	_, other := issue(t, dir, "other")
	missing, text := filepath.Join(dir, "missing"), filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no PEM"), 0o600))
	for _, test := range []struct {
		url  string
		args []string
		says string
	}{
		{"rediss://127.0.0.1:1", []string{"-cert", cert}, "-cert needs the file of its private key, -key"},
		{"rediss://127.0.0.1:1", []string{"-key", key}, "-key needs the file of its certificate, -cert"},
		{"rediss://127.0.0.1:1", []string{"-cacert", ""}, "-cacert is empty"},
		{"rediss://127.0.0.1:1", []string{"-cert", "", "-key", key}, "-cert is empty"},
		{"rediss://127.0.0.1:1", []string{"-cert", cert, "-key", ""}, "-key is empty"},
		{"rediss://127.0.0.1:1", []string{"-cacert", missing}, "-cacert: open " + missing},
		{"rediss://127.0.0.1:1", []string{"-cacert", text}, "-cacert: " + text + " has no certificate in PEM"},
		{"rediss://127.0.0.1:1", []string{"-cacert", key}, "has no certificate in PEM"},
		{"rediss://127.0.0.1:1", []string{"-cert", missing, "-key", key}, "-cert: open " + missing},
		{"rediss://127.0.0.1:1", []string{"-cert", cert, "-key", missing}, "-key: open " + missing},
		{"rediss://127.0.0.1:1", []string{"-cert", text, "-key", key}, "-cert " + text + ", -key " + key + ": tls: "},
		{"rediss://127.0.0.1:1", []string{"-cert", cert, "-key", other}, "private key does not match public key"},
		{"redis://127.0.0.1:1", []string{"-cacert", cert}, "-cacert, -cert and -key: unusable option: the url begins with redis://, not with rediss://"},
		{"unix:///nothing", []string{"-cert", cert, "-key", key}, "the url begins with unix://, not with rediss://"},
	} {
		s := ctl(t, test.url, append([]string{"list"}, test.args...)...)
		require.Equal(t, exitUsage, s.code, "%v: %s", test.args, s.err)
		require.Contains(t, s.err, test.says, "%v", test.args)
		require.Equal(t, 1, strings.Count(s.err, "\n"), s.err)
	}
}
