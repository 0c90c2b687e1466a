package lockweb_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A listener reads a stream of events. Each write is one.
type listener struct {
	header http.Header
	events chan []byte
}

func (v *listener) Header() http.Header { return v.header }
func (v *listener) WriteHeader(int)     {}
func (v *listener) Flush()              {}

func (v *listener) Write(text []byte) (int, error) {
	v.events <- bytes.Clone(text)
	return len(text), nil
}

// A change reaches each viewer within a second, at any time between two looks, and after a look for any viewer. The
// test has a clock of its own: it is what the page promises, and not how fast a machine is. The tests with a browser
// have the way from there to the page.
func TestEvents_AChangeIsSentWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		history := &lockweb.History{}
		hooks := history.Hooks(lockrt.Hooks{})
		page := lockweb.Handler().With(lockweb.WithHistory(history))
		ctx, cancel := context.WithCancel(t.Context())
		var viewers []*listener
		for range 3 {
			v := &listener{http.Header{}, make(chan []byte, 1000)}
			viewers = append(viewers, v)
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?part=events", nil)
			go page.ServeHTTP(v, request)
			synctest.Wait()
			require.Len(t, v.events, 1, "it begins at once")
			time.Sleep(170 * time.Millisecond) // each looks at another time
		}
		longest := time.Duration(0)
		for i := range 50 {
			time.Sleep(time.Duration(i) * 23 * time.Millisecond)
			for _, v := range viewers {
				for len(v.events) > 0 {
					<-v.events
				}
			}
			changed, key := time.Now(), fmt.Sprintf("order:%d.", i)
			hooks.Ended(ctx, lockrt.EndEvent{Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Key: key, At: changed, Reason: lockrt.EndTaken, Cause: lockrt.ErrLost})
			for _, v := range viewers {
				for !bytes.Contains(<-v.events, []byte(key)) {
					require.Less(t, time.Since(changed), time.Second)
				}
			}
			longest = max(longest, time.Since(changed))
		}
		require.Less(t, longest, time.Second)
		require.Greater(t, longest, 400*time.Millisecond, "changes came at all times between two looks")
		cancel()
		synctest.Wait()
	})
}
