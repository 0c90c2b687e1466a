package core

import (
	"log/slog"
	"time"

	"github.com/lockgen/lockgen/runtime/observe"
)

// Settings are the options of a client, checked and with their defaults. Package lockrt documents each, as a field of its Options.
type Settings struct {
	Watchdog       time.Duration
	OpTimeout      time.Duration
	RedLockTimeout time.Duration
	Cohort         int
	Linger         time.Duration
	TokenTTL       time.Duration
	FairWait       time.Duration
	Retry          Backoff
	Replicas       int
	Tracks         bool // the server reports changes of the keys that the client holds
	DeadlockAfter  time.Duration
	BreakDeadlocks bool
	Logger         *slog.Logger
	Hooks          observe.Hooks
	ProfileLabels  bool
	Name           string
	Anonymous      bool
}
