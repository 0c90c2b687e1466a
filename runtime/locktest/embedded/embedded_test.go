package embedded_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/embedded"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestStart(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded.Start()
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(url, "redis://")
	require.True(t, ok)
	c := redistest.NewClient(t, addr, func(o *rueidis.ClientOption) { o.DisableCache = true })
	require.NoError(t, c.Do(t.Context(), c.B().Set().Key("a").Value("b").PxMilliseconds(20).Build()).Error())
	require.Eventually(t, func() bool {
		return rueidis.IsRedisNil(c.Do(t.Context(), c.B().Get().Key("a").Build()).Error())
	}, 10*time.Second, time.Millisecond, "keys expire by themselves")

	other, stopOther, err := embedded.Start()
	require.NoError(t, err)
	require.NotEqual(t, url, other)
	stopOther()
	stop()
	_, err = net.Dial("tcp", addr)
	require.Error(t, err)
}
