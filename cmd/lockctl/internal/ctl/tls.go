package ctl

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"os"
	"sync/atomic"
)

// A security is the files of a command line for TLS. The flags have the names that redis-cli gives them.
type security struct{ authority, cert, key string }

func (s *security) flags(f *flag.FlagSet) {
	f.StringVar(&s.authority, "cacert", "", "trust the authorities in this `file` (PEM) alone, in place of those of the system")
	f.StringVar(&s.cert, "cert", "", "show the servers the certificate in this `file` (PEM)")
	f.StringVar(&s.key, "key", "", "the `file` of the private key of -cert (PEM)")
}

// config returns the configuration of TLS, or nil if there is no flag. An error is of the command line.
func (s *security) config() (*tls.Config, error) {
	switch {
	case *s == security{}:
		return nil, nil
	case s.cert != "" && s.key == "":
		return nil, &usageError{"-cert needs the file of its private key, -key"}
	case s.cert == "" && s.key != "":
		return nil, &usageError{"-key needs the file of its certificate, -cert"}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.authority != "" {
		pem, err := os.ReadFile(s.authority)
		if err != nil {
			return nil, &usageError{"-cacert: " + err.Error()}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &usageError{"-cacert: " + s.authority + " has no certificate in PEM"}
		}
	}
	if s.cert == "" {
		return config, nil
	}
	cert, err := os.ReadFile(s.cert)
	if err != nil {
		return nil, &usageError{"-cert: " + err.Error()}
	}
	key, err := os.ReadFile(s.key)
	if err != nil {
		return nil, &usageError{"-key: " + err.Error()}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &usageError{"-cert " + s.cert + ", -key " + s.key + ": " + err.Error()}
	}
	// A command can run for longer than a certificate is valid: each connection shows the certificate that is in the files then.
	var last atomic.Pointer[tls.Certificate]
	last.Store(&pair)
	again := regular(s.cert) && regular(s.key) // a pipe can be read once
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if again {
			if renewed, err := tls.LoadX509KeyPair(s.cert, s.key); err == nil {
				last.Store(&renewed)
			}
		}
		return last.Load(), nil // which is in no file while they are being replaced
	}
	return config, nil
}

// regular reports whether a file can be read more than once.
func regular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
