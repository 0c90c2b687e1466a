package lockrt_test

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Whoever asks for a desk has it in turn, wherever they run.
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
