package lockrt_test

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Customers in all processes get the desk in the order in which they asked.
func ExampleFairMutex() {
	client, stop := exampleClient()
	defer stop()
	desk := client.FairMutex("desk")

	err := desk.Do(context.Background(), func(ctx context.Context, _ *lockrt.Lease) error {
		standing, err := desk.Inspect(ctx)
		fmt.Println("ours:", standing.Ours, "waiting:", standing.Waiting)
		return err
	})
	fmt.Println(err)
	// Output:
	// ours: true waiting: 0
	// <nil>
}
