package replica_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/service/replica"
	"github.com/lockgen/lockgen/examples/service/servers"
	"github.com/lockgen/lockgen/examples/service/shop"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// started starts Redis and PostgreSQL.
func started(t *testing.T) (redis *redistest.RedisServer, postgres *servers.Server) {
	t.Helper()
	if os.Getenv("CI") == "" && !servers.PostgresInstalled() {
		t.Skip("PostgreSQL is not installed: make service installs it")
	}
	redis = redistest.Server(t)
	postgres, err := servers.Postgres(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, postgres.Close()) })
	return redis, postgres
}

// address returns an address at which nobody listens.
func address(t *testing.T) string {
	t.Helper()
	port, release, err := redistest.ReservePort()
	require.NoError(t, err)
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// TestRun_Stops shows how a replica stops: it accepts no more requests, finishes the one under way, and releases its
// locks.
func TestRun_Stops(t *testing.T) {
	t.Parallel()
	redis, postgres := started(t)
	store, err := shop.OpenStore(t.Context(), postgres.URL)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	_, err = store.DB().Exec(t.Context(), `INSERT INTO wallets VALUES ('w', 100); INSERT INTO orders VALUES ('o', 30)`)
	require.NoError(t, err)

	asked, answer := make(chan struct{}), make(chan struct{})
	bank := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(bank.Close)
	addr := address(t)
	listens := func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- replica.Run(ctx, replica.Config{Addr: addr, Redis: redis.URL(), Postgres: postgres.URL, Partners: bank.URL, Drain: time.Minute})
	}()
	require.Eventually(t, listens, time.Minute, 10*time.Millisecond)
	paid := make(chan replica.Answer, 1)
	go func() {
		var a replica.Answer
		response, err := http.Post("http://"+addr+"/pay", "application/json", strings.NewReader(`{"ID": "o", "Wallet": "w", "Cents": 30}`))
		if err == nil {
			_ = json.NewDecoder(response.Body).Decode(&a)
			_ = response.Body.Close()
		}
		paid <- a
	}()
	select {
	case <-asked:
	case a := <-paid:
		t.Fatalf("the bank was not asked: %+v", a)
	}
	locks := func() int64 {
		t.Helper()
		n, err := redis.Do("EXISTS", "example-service:order:o", "example-service:wallet:w").AsInt64()
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 2, locks(), "it holds the locks of the order and the wallet")

	stop()
	require.Eventually(t, func() bool { return !listens() }, time.Minute, 10*time.Millisecond)
	select {
	case err := <-ended:
		require.NoError(t, err)
		t.Fatal("it has ended before the request under way")
	default:
	}
	require.EqualValues(t, 2, locks(), "the request goes on")
	close(answer)
	require.Equal(t, replica.Answer{Outcome: replica.OK}, <-paid)
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return locks() == 0 }, 10*time.Second, 10*time.Millisecond, // a late request is withdrawn at once
		"the next replica has to wait for nothing")
	require.NoError(t, store.DB().QueryRow(t.Context(), `SELECT FROM payments WHERE order_id = 'o'`).Scan())
}

// TestRun_StopsBesideAConnectionWithoutARequest shows that a replica stops without an error while a client has a
// connection on which it has not sent anything, as the pool of an HTTP client has when it connected once too often.
func TestRun_StopsBesideAConnectionWithoutARequest(t *testing.T) {
	t.Parallel()
	redis, postgres := started(t)
	addr := address(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- replica.Run(ctx, replica.Config{Addr: addr, Redis: redis.URL(), Postgres: postgres.URL})
	}()
	var idle net.Conn
	require.Eventually(t, func() (connected bool) {
		var err error
		idle, err = net.Dial("tcp", addr)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	t.Cleanup(func() { _ = idle.Close() })
	response, err := http.Post("http://"+addr+"/pay", "application/json", strings.NewReader(`{`)) // the replica has accepted idle before
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	stop()
	require.NoError(t, <-ended)
}
