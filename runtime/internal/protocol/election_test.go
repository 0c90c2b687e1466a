package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

func TestElection(t *testing.T) {
	t.Parallel()
	p := process()
	term := Term{Owner: "u:5", Token: 7, Value: "a b"}
	require.Equal(t, Command{scripts.Elect, []string{"k", "lockgen_leader:{k}"}, []string{"u:5", "7", "both", "1000", "a b"}},
		p.Lead("k", term, time.Second))
	require.Equal(t, "1", p.Lead("k", term, 0).Args[3], "0 would mean to resign")
	require.Equal(t, Command{scripts.Elect, []string{"{k}:1", "lockgen_leader:{k}:1"}, []string{"u:5", "7", "both", "0", "a b"}},
		p.Resign("{k}:1", term))
	require.Equal(t, Command{Script: scripts.Leader, Keys: []string{"k", "lockgen_leader:{k}"}}, p.Leader("k"))
	require.Equal(t, "lockgen_leader:{k}", LeaderChannel("k"))
	later := term
	later.Doubts = 2
	require.Equal(t, "007", p.Lead("k", later, time.Second).Args[1], "after two requests that may come late")
	later.Doubts = 1 << 30
	require.Len(t, p.Lead("k", later, time.Second).Args[1], mostDoubts+1)
	late, err := ReadLeader("007 u:5 a b")
	require.NoError(t, err)
	require.Equal(t, term, late)
	got, err := ReadLeader("7 u:5 a b")
	require.NoError(t, err)
	require.Equal(t, term, got)
	got, err = ReadLeader("7 u:5 ")
	require.NoError(t, err)
	require.Equal(t, Term{Owner: "u:5", Token: 7}, got)
	got, err = ReadLeader("")
	require.NoError(t, err)
	require.Zero(t, got)
	ttl, got, err := ReadLeading([]any{int64(1500), "7 u:5 a b"})
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, ttl)
	require.Equal(t, term, got)
	for _, bad := range []any{nil, []any{int64(1)}, []any{"1", "7 u:5 a"}, []any{int64(1), int64(2)}, []any{int64(1), "7"}} {
		_, _, err := ReadLeading(bad)
		require.ErrorContains(t, err, "leader: ", "%v", bad)
	}
	for _, bad := range []string{"7", "7 u:5", "x u:5 v"} {
		_, err = ReadLeader(bad)
		require.Error(t, err, bad)
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	s := Schedule{"k", time.Minute, time.Hour}
	at := time.UnixMilli(60_000)
	require.Equal(t, Command{scripts.Every, []string{"k", "lockgen_every:{k}"}, []string{"60000", "", "0", "-1", "3600000", "-1"}}, s.Look(Known{}))
	require.Equal(t, Command{scripts.Every, []string{"k", "lockgen_every:{k}"}, []string{"60000", "u:5", "7", "120000", "3600000", "60000"}},
		s.Begin("u:5", 7, Known{Begun: at.Add(time.Minute), Done: at}))
	require.Equal(t, Command{scripts.EveryDone, []string{"lockgen_every:{k}"}, []string{"60000", "3600000"}}, s.Done(at))
	for what, want := range map[int64]Moment{
		2:  {Begins: true},
		1:  {Due: true},
		0:  {},
		-1: {Lost: true},
	} {
		want.Start, want.Left, want.Done = time.UnixMilli(120_000), time.Second, at
		got, err := ReadEvery([]int64{what, 120_000, 1000, -1, 60_000})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ReadEvery([]int64{1, 2})
	require.Error(t, err)
}
