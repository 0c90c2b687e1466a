package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// Orders is the service of each replica.
//
//lockgen:service watchdog=2s
type Orders interface {
	// Ship hands an order to the carrier. Each holder of its lock has a larger token than all earlier holders.
	//
	//lockgen:lock key=example-fencing:order:{id} fence
	Ship(ctx context.Context, id OrderID, carrier string) error
}

// An OrderID names an order.
type OrderID string

var errStale = errors.New("stale token")

// orders keeps orders in a database.
type orders struct {
	database string // its address
	stops    bool   // pause the process at the worst moment
}

func (o *orders) Ship(ctx context.Context, id OrderID, carrier string) error {
	token, _ := lockrt.TokenFrom(ctx)
	if err := ctx.Err(); err != nil { // ends when the lock is lost; it is not lost yet
		return err
	}
	if o.stops {
		replicas.Say("holds the lock, is about to write, and stops")
		if err := replicas.Pause(); err != nil {
			return err
		}
		replicas.Say("runs on, and does not know that time has passed: it writes")
	}
	row := url.Values{"id": {string(id)}, "carrier": {carrier}, "token": {strconv.FormatInt(token, 10)}}
	// The context would prevent this request from being sent. It cannot take back a request that is
	// already on the way.
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, o.database+"?"+row.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		replicas.Say("has shipped the order by %s", carrier)
		return nil
	case http.StatusConflict:
		return errStale
	}
	return fmt.Errorf("the database says %s", answer.Status)
}
