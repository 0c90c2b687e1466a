package leases

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// lossRow is a row of the causes of losses in docs/operating.md: the end of the error, and the reason.
var lossRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([a-z_]+)` \\|")

// The table of docs/operating.md, in both languages, has each cause by which the watchdog ends a lease, and its reason.
func TestReasonOf_Documented(t *testing.T) {
	t.Parallel()
	want := [][2]string{}
	for _, cause := range []error{
		watchdog.ErrForced,
		watchdog.ErrRefused,
		&watchdog.UnconfirmedError{For: 27 * time.Second},
		&watchdog.UnconfirmedError{For: 27 * time.Second, Last: errors.New("...")},
		watchdog.ErrElapsed,
		watchdog.ErrTooLong,
	} {
		want = append(want, [2]string{cause.Error(), string(reasonOf(failure.Lost(cause)))})
	}
	for _, page := range []string{"../../../docs/operating.md", "../../../docs/zh/operating.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		_, section, found := strings.Cut(string(text), "`lockgen_losses_total`")
		require.True(t, found, page)
		section, _, _ = strings.Cut(section, "\n## ")
		var got [][2]string
		for _, row := range lossRow.FindAllStringSubmatch(section, -1) {
			got = append(got, [2]string{row[1], row[2]})
		}
		require.Equal(t, want, got, page)
		require.Contains(t, section, "`"+string(observe.EndOther)+"`", page)
	}
	require.Equal(t, observe.EndOther, reasonOf(failure.Lost(errors.New("something else"))))
}
