// Package coretest opens connections for the tests of packages that package lockrt stands on.
package coretest

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Cohort is the default of lockrt.Options.Cohort.
const Cohort = 128

// Defaults returns s with the defaults of lockrt.Options for what it does not say.
func Defaults(s core.Settings) core.Settings {
	s.Watchdog = cmp.Or(s.Watchdog, 30*time.Second)
	s.OpTimeout = cmp.Or(s.OpTimeout, 3*time.Second)
	s.RedLockTimeout = cmp.Or(s.RedLockTimeout, s.OpTimeout)
	s.TokenTTL = cmp.Or(s.TokenTTL, 10*time.Minute)
	s.FairWait = cmp.Or(s.FairWait, 5*time.Minute)
	s.DeadlockAfter = cmp.Or(s.DeadlockAfter, 5*time.Second)
	s.Cohort = cmp.Or(s.Cohort, Cohort)
	s.Retry = cmp.Or(s.Retry, core.ExponentialBackoff(10*time.Millisecond, 250*time.Millisecond))
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// Open connects to the server at url, and returns the client that open makes with these connections. They announce on channels, if any are
// given.
func Open[C any](ctx context.Context, url string, s core.Settings, channels *transport.Channels, open func(connect.Connection, core.Settings) C) (c C, err error) {
	s = Defaults(s)
	conn, err := connect.Open(ctx, url, connect.Options{
		Channels: channels, Watchdog: s.Watchdog, OpTimeout: s.OpTimeout, Retry: s.Retry.Pause, Host: fleet.Host(), Logger: s.Logger,
	})
	if err != nil {
		return c, err
	}
	return open(conn, s), nil
}
