package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A grant goes to a call on the same terms, if it is renewed, and if it has a fencing token where the call wants one.
func TestTerms_PassesTo(t *testing.T) {
	t.Parallel()
	renewed := Terms{TTL: 30 * time.Second, Renew: true}
	fenced := renewed
	fenced.Fenced = true
	fixed := Terms{TTL: 30 * time.Second}
	shorter := Terms{TTL: 10 * time.Second, Renew: true}
	require.True(t, renewed.PassesTo(renewed, Tokens{}))
	require.True(t, fenced.PassesTo(fenced, NewTokens(5, 1)))
	require.False(t, fenced.PassesTo(fenced, NewTokens(0, 1)), "no token was drawn")
	require.False(t, fixed.PassesTo(fixed, Tokens{}))
	require.False(t, renewed.PassesTo(shorter, Tokens{}))
	require.False(t, renewed.PassesTo(fenced, NewTokens(5, 1)))
}

// A hand-over is as good as a grant if the lease is renewed and still trusted, and has a fencing token where the call wants one.
func TestTerms_MetBy(t *testing.T) {
	t.Parallel()
	renewed, fenced := Terms{TTL: 30 * time.Second, Renew: true}, Terms{TTL: 30 * time.Second, Renew: true, Fenced: true}
	at := time.Now()
	require.True(t, renewed.MetBy(at, 30*time.Second, 0))
	require.True(t, fenced.MetBy(at, 30*time.Second, 1))
	require.False(t, fenced.MetBy(at, 30*time.Second, 0))
	require.False(t, Terms{TTL: 30 * time.Second}.MetBy(at, 30*time.Second, 0))
	require.False(t, renewed.MetBy(at.Add(-27*time.Second), 30*time.Second, 0), "the rest is the margin")
}

// Tokens rise by one.
func TestTokens(t *testing.T) {
	t.Parallel()
	x := NewTokens(7, 3)
	for want := range 3 {
		require.Equal(t, 3-want, x.Left)
		require.EqualValues(t, 7+want, x.Take())
	}
	require.Zero(t, x.Left)
}

// The most recent keys are kept, each once, the last one at the end.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r Recent
	require.Empty(t, r.All())
	for i := range mostRecent + 1 {
		r.Note(strconv.Itoa(i))
	}
	r.Note("1")
	all := r.All()
	require.Len(t, all, mostRecent)
	require.Equal(t, "2", all[0], "0 was the oldest")
	require.Equal(t, "1", all[mostRecent-1])
}
