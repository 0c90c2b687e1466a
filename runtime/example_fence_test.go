package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

var errStale = errors.New("stale token")

// A store refuses a token that is older than one that it has seen. In SQL that is
//
//	UPDATE orders SET state = $1, token = $2 WHERE id = $3 AND token <= $2
//
// and no row that changed means that the token was stale.
type store struct {
	mu    sync.Mutex
	state string
	token int64
}

func (s *store) write(ctx context.Context, state string) error {
	token, ok := lockrt.TokenFrom(ctx)
	if !ok {
		return errors.New("no token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return errStale
	}
	s.state, s.token = state, token
	return nil
}

// A holder that was stopped for longer than its lease cannot know it before it runs again, and what
// it had sent by then is under way. The store can.
func ExampleWithFencing() {
	url, stop, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer stop()
	c, err := lockrt.Open(context.Background(), url, lockrt.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	var orders store
	order := c.Mutex("order:42", lockrt.WithFencing())
	slow, err := order.Lock(context.Background())
	if err != nil {
		panic(err)
	}
	_, _ = order.ForceUnlock(context.Background()) // as if its time had passed

	err = order.Do(context.Background(), func(ctx context.Context, _ *lockrt.Lease) error {
		return orders.write(ctx, "paid")
	})
	fmt.Println("the next holder:", err)
	fmt.Println("the slow one:", orders.write(slow.Context(), "cancelled"))
	fmt.Println("the order is", orders.state)
	fmt.Println(errors.Is(slow.Unlock(context.Background()), lockrt.ErrLost))
	// Output:
	// the next holder: <nil>
	// the slow one: stale token
	// the order is paid
	// true
}
