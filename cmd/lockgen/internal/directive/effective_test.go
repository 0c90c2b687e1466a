package directive_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

func TestEffective(t *testing.T) {
	t.Parallel()
	read := func(text string) *directive.Directive {
		d, wrong := parse(text)
		require.Empty(t, wrong)
		return d
	}
	got := func(iface, defaults *directive.Directive, locks ...*directive.Directive) []string {
		var all []string
		for _, g := range directive.Effective(locks, []*directive.Directive{iface}, []*directive.Directive{defaults}) {
			all = append(all, g.Name+"="+g.Value+" by "+string(g.By))
		}
		return all
	}
	lock := read("//lockgen:lock key=a busy=error")
	service := read("//lockgen:service name=X prefix=p wait=2s")
	defaults := read("//lockgen:defaults wait=1s watchdog=9s")
	require.Empty(t, got(read("//lockgen:locks"), nil, read("//lockgen:lock key=a ctx=c")), "what names things is no option of the lock")
	require.Equal(t, []string{"wait=2s by service", "watchdog=9s by defaults", "busy=error by lock"}, got(service, defaults, lock))
	require.Equal(t, []string{"wait=3s by lock", "watchdog=9s by defaults", "busy=error by lock"},
		got(service, defaults, lock, read("//lockgen:lock key=b wait=3s")), "of any lock of the method")
	require.Equal(t, []string{"wait=2s by service", "lease=5s by lock"}, got(service, defaults, read("//lockgen:lock key=a lease=5s")), "a lease replaces a watchdog")
	require.Equal(t, []string{"watchdog=2s by lock"}, got(read("//lockgen:service lease=5s"), nil, read("//lockgen:lock key=a watchdog=2s")))
}
