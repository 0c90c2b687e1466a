package lockweb_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
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

// cellsOf returns the levels of a name in the heat map of a page, the present minute last, and the sum.
func cellsOf(t *testing.T, page http.Handler, name string) (levels, sum string) {
	t.Helper()
	_, body := get(t, page, "")
	row := regexp.MustCompile(`<tr><th scope="row"><bdi>` + regexp.QuoteMeta(name) + `</bdi></th>(.*)<td class="n">([^<]*)</td></tr>`).FindStringSubmatch(body)
	if row == nil {
		return "", ""
	}
	for _, cell := range regexp.MustCompile(`<td class="h(\d)">`).FindAllStringSubmatch(row[1], -1) {
		levels += cell[1]
	}
	return levels, row[2]
}

// The heat map has the seconds of each of the last 15 minutes, and forgets earlier ones.
func TestHistory_OfFifteenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		history := &lockweb.History{}
		hooks := history.Hooks(lockrt.Hooks{})
		page := lockweb.Handler().With(lockweb.WithHistory(history))
		waited := func(name string, d time.Duration, contended bool) {
			hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Name: name, Waited: d, Contended: contended, Outcome: lockrt.OutcomeAcquired})
		}
		cells := func(name, levels, sum string) {
			t.Helper()
			time.Sleep(time.Second) // so the page looks again
			gotLevels, gotSum := cellsOf(t, page, name)
			require.Equal(t, levels, gotLevels)
			require.Equal(t, sum, gotSum)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 30*time.Second))) // the middle of a minute
		waited("pay", 90*time.Second, true)                                                        // a whole minute, and half of this one
		waited("pay", 500*time.Millisecond, true)
		waited("quick", time.Hour, false)
		cells("pay", "000000000000043", "1m31s")
		cells("quick", "", "")
		waited("day", 24*time.Hour, true) // the minutes of the map are full, and the present one has 32 seconds
		cells("day", "444444444444443", "14m32s")
		time.Sleep(13 * time.Minute)
		cells("pay", "430000000000000", "1m31s")
		time.Sleep(time.Minute)
		cells("pay", "300000000000000", "31s")
		time.Sleep(time.Minute)
		cells("pay", "", "")
		cells("day", "", "")
		for i := range 1200 { // names made of keys
			waited(fmt.Sprint("order:", i), time.Second, true)
		}
		cells("other", "000000000000004", "3m20s")
		_, body := get(t, page, "")
		require.Equal(t, 30, strings.Count(body, `<td class="h2">`)+strings.Count(body, `<td class="h4">`)+strings.Count(body, `<td class="h3">`), "the names that waited for longest")
	})
}
