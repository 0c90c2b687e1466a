package servers

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
)

// Redis starts the redis-server that is on the PATH or that LOCKGEN_REDIS_SERVER names. It keeps nothing on disk: after
// a restart it is empty.
func Redis(ctx context.Context) (*Server, error) {
	s, err := open("redis")
	if err != nil {
		return nil, err
	}
	s.URL = "redis://" + s.addr()
	s.command = func(port string) *exec.Cmd {
		return exec.Command(cmp.Or(os.Getenv("LOCKGEN_REDIS_SERVER"), "redis-server"),
			"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	}
	s.ready = s.ping
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ping asks whether Redis answers.
func (s *Server) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	reply := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return err
	}
	if string(reply) != "+PONG\r\n" {
		return errors.New("unexpected reply to PING: " + string(reply))
	}
	return nil
}
