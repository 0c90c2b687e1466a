package lockrt_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// TestACL_ElectionsAndSchedules shows that what ACL.md lists is enough, and that each name is needed.
func TestACL_ElectionsAndSchedules(t *testing.T) {
	t.Parallel()
	u := userOf(t, "Mutex")
	mutex := len(u.rules)
	u.rules = append(u.rules, userOf(t, "Elections and schedules").rules...)
	walk := func(t *testing.T, u aclUser) (told string) {
		server, url := u.server(t)
		log := &lines{}
		one, two := clientOf(t, url, lockrt.Options{Logger: log.logger()}), clientOf(t, url, lockrt.Options{Logger: log.logger()})
		var said []error
		note := func(err error) {
			if err != nil {
				said = append(said, err)
			}
		}
		l, err := one.Election("order:office").Campaign(patient(t), "a")
		note(err)
		observer, stop := context.WithCancel(patient(t))
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for _, err := range two.Election("order:office").Observe(observer) {
				if err != nil {
					fmt.Fprintln(log, err)
				}
			}
		}()
		until(t, "it is heard, or refused", func() bool {
			return log.count("NOPERM") > 0 || subscribers(t, server, "lockgen_leader:{order:office}") > 0
		})
		stop()
		<-observed
		if l != nil {
			note(l.Proclaim(patient(t), "b"))
			note(l.Resign(patient(t)))
		}
		ctx, cancel := context.WithCancel(patient(t))
		if err := one.Every("order:job", time.Hour, func(context.Context, lockrt.Tick) error { cancel(); return nil }).Run(ctx); ctx.Err() == nil {
			note(err)
		}
		cancel()
		for _, err := range said {
			told += err.Error() + "\n"
		}
		if log.count("NOPERM") > 0 {
			told += "NOPERM in the log"
		}
		return told
	}
	require.Empty(t, walk(t, u))
	for i := mutex; i < len(u.rules); i++ {
		t.Run("without "+u.rules[i], func(t *testing.T) {
			t.Parallel()
			require.True(t, denied(walk(t, u.without(i))))
		})
	}
}
