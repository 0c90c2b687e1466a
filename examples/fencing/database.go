package main

import (
	"net/http"
	"strconv"
	"sync"
)

// A database keeps one row for each order, with the largest token that came with a write. A write that comes with a
// smaller one is from somebody who had the lock before, and is refused. In SQL that is
//
//	UPDATE orders SET carrier = $1, token = $2 WHERE id = $3 AND token <= $2
//
// and no row that changed means that the token was stale.
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
