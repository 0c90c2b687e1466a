package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestObserved runs the program, requests the pages whose addresses it prints, and stops it.
func TestObserved(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return "" },
		"real":     func(t *testing.T) string { return redistest.Server(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, w := io.Pipe()
			ended := make(chan error, 1)
			redisURL := url(t)
			go func() {
				err := run(ctx, "localhost:0", redisURL, w)
				_ = w.CloseWithError(err)
				ended <- err
			}()
			base, spans := "", ""
			for lines := bufio.NewScanner(r); lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C"); {
				if m := regexp.MustCompile(`(http://\S+)/debug/locks`).FindStringSubmatch(lines.Text()); m != nil {
					base = m[1]
				}
				if m := regexp.MustCompile(`^  (\S+lockgen-spans\S+)$`).FindStringSubmatch(lines.Text()); m != nil {
					spans = m[1]
				}
			}
			require.NotEmpty(t, base)
			t.Cleanup(func() { _ = os.Remove(spans) })
			shows := func(path string, wants ...string) {
				t.Helper()
				require.Eventually(t, func() bool {
					response, err := http.Get(base + path) //nolint:noctx // the test ends with the server
					if err != nil {
						return false
					}
					defer response.Body.Close()
					text, err := io.ReadAll(response.Body)
					if err != nil {
						return false
					}
					for _, want := range wants {
						if !regexp.MustCompile(want).Match(text) {
							return false
						}
					}
					return true
				}, time.Minute, 10*time.Millisecond, "%s", path)
			}
			shows("/debug/locks", "shop.Service.Pay", "shop-[123] on ", `<td class="h[1-5]">`)
			shows("/metrics", `lockgen_acquire_duration_seconds_count\{contended="true",kind="mutex",name="shop.Service.Pay",outcome="acquired"\} [1-9]`,
				`lockgen_hold_duration_seconds_count\{cause="released",kind="multi",name="shop.Service.Pack"\} [1-9]`,
				`lockgen_response_seconds\{client="shop-3"\} `, `lockgen_sent_again_total\{client="shop-1"\} `)
			shows("/debug/pprof/goroutine?debug=1", `"lock":"shop.Service.P`)
			cancel()
			require.NoError(t, <-ended)
			text, err := os.ReadFile(spans)
			require.NoError(t, err)
			require.Regexp(t, `lock hold \S+ lockgen.kind=mutex lockgen.name=shop.Service.Pay lockgen.key=order:A-`, string(text))
			require.Contains(t, string(text), "lock acquire ")
		})
	}
}

func TestObserved_WithoutAServer(t *testing.T) {
	t.Parallel()
	require.Error(t, run(t.Context(), "localhost:0", "redis://127.0.0.1:1", io.Discard))
	require.Error(t, run(t.Context(), "not an address", "", io.Discard))
}
