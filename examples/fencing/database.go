package main

import (
	"net/http"
	"strconv"
	"sync"
)

// A database keeps one row for each order, with the largest token that came with a write. It refuses a write with a
// smaller token, which comes from an earlier holder of the lock. In SQL this is one statement. The column token is a
// BIGINT, since tokens are microseconds of the Redis server's clock, about 1.8e15:
//
//	UPDATE orders SET carrier = $1, token = $2 WHERE id = $3 AND token <= $2
//
// A statement that changes no row means that the token was stale. The example in examples/service runs it, and the read that a write may
// depend on, against PostgreSQL: it is a module of its own, so that this one needs no driver.
type database struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	carrier string
	token   int64
}

func (d *database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.FormValue("token"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := r.FormValue("id")
	if token < d.rows[id].token {
		http.Error(w, errStale.Error(), http.StatusConflict)
		return
	}
	d.rows[id] = row{carrier: r.FormValue("carrier"), token: token}
}

func (d *database) carrier(id OrderID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[string(id)].carrier
}
