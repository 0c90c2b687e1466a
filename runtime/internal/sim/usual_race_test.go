//go:build race

package sim

// usual is how many worlds are run with the race detector, which takes ten times as long.
const usual = 20

// usuallyCompared is how many calls of scripts are compared with a real server.
const usuallyCompared = 500
