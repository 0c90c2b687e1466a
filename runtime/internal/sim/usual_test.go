//go:build !race

package sim

// usual is how many worlds are run.
const usual = 300

// usuallyCompared is how many calls of scripts are compared with a real server.
const usuallyCompared = 10_000
