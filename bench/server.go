package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// server returns the address of a server and what stops it.
func server(ctx context.Context) (addr string, stop func(), err error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		return strings.TrimPrefix(url, "redis://"), func() {}, nil
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	dir, err := os.MkdirTemp("", "lockgen-bench")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("set REDIS_URL or install redis-server: %w", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() {
				for lines.Scan() { // so that it never blocks on its log
				}
			}()
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				_ = os.RemoveAll(dir)
			}, nil
		}
	}
	return "", nil, fmt.Errorf("redis-server ended: %w", cmd.Wait())
}
