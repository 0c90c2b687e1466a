package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"
)

// dialNext is for how long the dial of one address of a server may take before the next address is dialled, too.
const dialNext = 300 * time.Millisecond

// dialTCP does what rueidis does by itself, but it dials all addresses of the name of a server: a dead one does not keep the client from the others.
// A [net.Dialer] gives each address two seconds, which is all the time that there is.
func dialTCP(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if _, name := netip.ParseAddr(host); err != nil || host == "" || name == nil || d.Timeout <= 0 {
		return dialOne(ctx, addr, d, secure)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel() // which ends the dials that are left over
	ips, err := cmp.Or(d.Resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	if secure != nil && secure.ServerName == "" {
		secure = secure.Clone()
		secure.ServerName = host
	}
	addrs := make([]string, len(ips))
	for i, ip := range ips {
		addrs[i] = net.JoinHostPort(ip.Unmap().String(), port)
	}
	return dialFirst(addrs, min(dialNext, d.Timeout/time.Duration(len(addrs)+1)), func(addr string) (net.Conn, error) {
		return dialOne(ctx, addr, d, secure)
	})
}

// dialFirst returns the first connection to one of the addresses, of which there is one at least, or the error that came first; that of a
// certificate says more than the others. It dials the next address after a pause, or at once when a dial has failed.
func dialFirst(addrs []string, pause time.Duration, dial func(addr string) (net.Conn, error)) (net.Conn, error) {
	type outcome struct {
		conn net.Conn
		err  error
	}
	got := make(chan outcome, len(addrs))
	next := time.NewTimer(0)
	defer next.Stop()
	var failed error
	for begun, ended := 0, 0; ended < len(addrs); {
		select {
		case <-next.C:
			if begun < len(addrs) {
				addr := addrs[begun]
				begun++
				go func() {
					conn, err := dial(addr)
					got <- outcome{conn, err}
				}()
				next.Reset(pause)
			}
		case o := <-got:
			ended++
			if o.err == nil {
				go func() { // the others may have connected, too
					for range begun - ended {
						if o := <-got; o.err == nil {
							_ = o.conn.Close()
						}
					}
				}()
				return o.conn, nil
			}
			if _, untrusted := errors.AsType[*tls.CertificateVerificationError](o.err); failed == nil || untrusted {
				failed = o.err
			}
			next.Reset(0)
		}
	}
	return nil, failed
}

// dialOne dials one address, as rueidis does by itself.
func dialOne(ctx context.Context, addr string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	if secure == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", addr)
}
