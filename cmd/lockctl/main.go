// Lockctl shows the locks on a Redis server with their holders and waiters, forces locks of hanging holders open, runs
// commands under a lock, and checks whether a server suits locks.
//
// Usage:
//
//	lockctl list [-scan] [-rate n] [pattern]     locks with holders or waiters; in a pattern * is any text and ? is one character
//	lockctl show key                             everything about one lock
//	lockctl watch [pattern]                      list, repeated each second
//	lockctl why key                              the chain of waiters and holders
//	lockctl deadlocks                            circles of calls that wait for each other
//	lockctl force [-yes] key                     takes the lock from the holder that is shown
//	lockctl run [flags] key -- command           runs a command under a lock
//	lockctl doctor [-for user] [key]             checks whether a server suits locks, and whether a user may lock
//
// All take -url (as lockrt.Open does; default $REDIS_URL, else redis://localhost:6379), -timeout and -json, and for TLS -cacert, -cert and -key. docs/operating.md shows how to use them.
package main

import (
	"context"
	"os"

	"github.com/lockgen/lockgen/cmd/lockctl/internal/ctl"
)

func main() {
	os.Exit(ctl.Run(context.Background(), ctl.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Colour: terminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", Asks: terminal(os.Stdin),
	}))
}

// terminal reports whether a user sits at f. The null device is no terminal, although it is a character device, too.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
