package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Postgres starts a PostgreSQL with an empty database in a temporary directory. It finds the programs on the PATH, or
// where the packages of Debian, Ubuntu and Fedora have them. PostgreSQL refuses to run as root: root starts it as the
// user postgres, or nobody.
func Postgres(ctx context.Context) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s, err := open("postgres")
	if err != nil {
		return nil, err
	}
	if err := s.create(ctx, bin); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// create makes the database and starts its server.
func (s *Server) create(ctx context.Context, bin string) error {
	attributes, err := unprivileged(s.dir)
	if err != nil {
		return fmt.Errorf("servers: postgres: %w", err)
	}
	data := filepath.Join(s.dir, "data")
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.SysProcAttr, cmd.Dir = attributes, s.dir
		cmd.Env = append(os.Environ(), "HOME="+s.dir, "LC_ALL=C")
		return cmd
	}
	// The files live as long as this process: no data has to reach the disk.
	out, err := program("initdb", "-D", data, "-U", "lockgen", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers: initdb: %w\n%s", err, out)
	}
	s.URL = "postgres://lockgen@" + s.addr() + "/postgres"
	s.command = func(port string) *exec.Cmd {
		return program("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	s.ready = func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	return s.Start(ctx)
}

// PostgresInstalled reports whether there is a PostgreSQL to start.
func PostgresInstalled() bool {
	_, err := programs()
	return err == nil
}

// programs returns the directory of the programs of the newest PostgreSQL.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb", "/usr/libexec/postgresql*/initdb"} {
		paths, _ := filepath.Glob(pattern) // the patterns are well formed
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return "", errors.New("servers: postgres: initdb is neither on the PATH nor below /usr/lib/postgresql: install PostgreSQL")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

// version returns the first number in a path, 0 if there is none.
func version(path string) int {
	begin := 0
	for begin < len(path) && (path[begin] < '0' || path[begin] > '9') {
		begin++
	}
	end := begin
	for end < len(path) && path[end] >= '0' && path[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(path[begin:end])
	return n
}
