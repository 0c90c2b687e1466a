package leaktest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

//nolint:paralleltest // it counts goroutines
func TestCheck_WaitsForThoseThatEnd(t *testing.T) {
	Check(t)
	started, stop := make(chan struct{}), make(chan struct{})
	go func() {
		close(started)
		<-stop
	}()
	<-started
	t.Cleanup(func() { close(stop) })
}

//nolint:paralleltest // it counts goroutines
func TestLeaked_NamesThoseThatDoNot(t *testing.T) {
	before := goroutines()
	require.Empty(t, leaked(before))
	started, stop := make(chan struct{}), make(chan struct{})
	go forgotten(started, stop)
	<-started
	left := leaked(before)
	require.Len(t, left, 1)
	require.Contains(t, left[0], "leaktest.forgotten")
	require.Empty(t, leaked(goroutines()))
	close(stop)
}

func forgotten(started chan<- struct{}, stop <-chan struct{}) {
	close(started)
	<-stop
}
