package ctl

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// BenchmarkList lists 10,000 locks that 100 clients hold. server-ms/op is the CPU time of the server.
func BenchmarkList(b *testing.B) {
	server := redistest.Server(b)
	var all sync.WaitGroup
	for i := range 100 {
		c, err := lockrt.Open(b.Context(), server.URL(), lockrt.Options{Name: fmt.Sprint("service", i), Watchdog: 10 * time.Minute})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		all.Go(func() {
			for j := range 100 {
				if _, err := c.Mutex(fmt.Sprintf("order:%d:%d", i, j)).Lock(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	cpu := func() float64 {
		info, err := server.Do("INFO", "cpu").ToString()
		require.NoError(b, err)
		sum := 0.0
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "used_cpu_sys" || name == "used_cpu_user" {
				n, err := strconv.ParseFloat(value, 64)
				require.NoError(b, err)
				sum += n
			}
		}
		return sum
	}
	o := &options{url: server.URL(), timeout: 20 * time.Second, Env: Env{Stdout: io.Discard, Stderr: io.Discard}}
	require.NoError(b, o.open(b.Context(), lockrt.Options{}))
	defer func() { require.NoError(b, o.c.Close()) }()
	pace := time.NewTicker(time.Second / 4) // each process answers 10 times a second
	defer pace.Stop()
	before, took := cpu(), time.Duration(0)
	for b.Loop() {
		<-pace.C
		at := time.Now()
		l, err := o.listing(b.Context())
		took += time.Since(at)
		require.NoError(b, err)
		require.Len(b, l.Locks, 10_000)
		require.Empty(b, l.Silent)
	}
	b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms/op")
	b.ReportMetric((cpu()-before)*1000/float64(b.N), "server-ms/op")
	b.ReportMetric(0, "ns/op")
}
