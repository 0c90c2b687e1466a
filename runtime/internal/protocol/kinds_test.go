package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

func TestRW(t *testing.T) {
	t.Parallel()
	l := process().RW("k")
	lines := []string{"lockgen_reader:{k}", "lockgen_writer:{k}", "lockgen_turn:{k}"}
	with := func(tail []string, head ...string) []string { return append(head, tail...) }
	for name, c := range map[string]struct{ got, want Command }{
		"read at once": {l.Read("u:5", "", Stay{}, time.Second),
			Command{scripts.RWRead, with(lines, "k", "{k}:u:5:rwlock_timeout:1"), []string{"1000", "u:5", "", "0", ""}}},
		"read under a write lock": {l.Read("u:5", "u:4:write", Stay{For: 2 * time.Second, Deaf: true}, time.Second),
			Command{scripts.RWRead, with(lines, "k", "{k}:u:5:rwlock_timeout:1"), []string{"1000", "u:5", "u:4:write", "2000", "+"}}},
		"write": {l.Write("u:5:write", Stay{For: time.Second}, 1, 30*time.Second),
			Command{scripts.RWWrite, append(with(lines, "k"), "redisson_lock_token:{k}"), []string{"30000", "u:5:write", "1000", "", "1", "60000"}}},
		"release a reader": {l.Release("u:5"),
			Command{scripts.RWReadRelease, with(lines, "k", "{k}:u:5:rwlock_timeout:1", "redisson_rwlock:{k}"), []string{"u:5", "00", "both", "{k}:"}}},
		"release a writer": {l.Release("u:5:write"),
			Command{scripts.RWWriteRelease, with(lines, "k", "redisson_rwlock:{k}"), []string{"u:5:write", "01", "both", "{k}:"}}},
		"take from readers": {l.ForceUnlock(false),
			Command{scripts.RWForceUnlock, with(lines, "k", "redisson_rwlock:{k}"), []string{"read", "00", "both", "{k}:"}}},
		"take from a writer": {l.ForceUnlock(true),
			Command{scripts.RWForceUnlock, with(lines, "k", "redisson_rwlock:{k}"), []string{"write", "01", "both", "{k}:"}}},
		"yield": {l.Yield(250 * time.Millisecond),
			Command{scripts.RWYield, []string{"k", "lockgen_writer:{k}", "redisson_rwlock:{k}", "lockgen_turn:{k}"}, []string{"250", "both"}}},
		"inspect": {l.Inspect(),
			Command{scripts.Inspect, []string{"k", "lockgen_waiting:{k}", "redisson_rwlock:{k}"}, []string{"both"}}},
	} {
		require.Equal(t, c.want, c.got, name)
	}
	require.True(t, ReadRWRead(-2).Granted())
	require.Equal(t, Verdict{Wait: 40}, ReadRWRead(40))
	v, err := ReadRWWrite([]int64{-2, 9})
	require.NoError(t, err)
	require.Equal(t, Verdict{Wait: Granted, Token: 9}, v)
	_, err = ReadRWWrite([]int64{-2})
	require.EqualError(t, err, "rw_write: 1 values in a reply of 2")
}

func TestFair(t *testing.T) {
	t.Parallel()
	l := process().Fair("k")
	at := time.UnixMilli(1700000000123)
	keys := []string{"k", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "lockgen_fair:{k}", "redisson_lock__channel:{k}", "redisson_lock_token:{k}"}
	for name, c := range map[string]struct{ got, want Command }{
		"try": {l.Acquire(FairRequest{Owner: "u:5", Queue: NotQueued, Lease: time.Second, Wait: 3 * time.Second, Next: 5 * time.Second}, at),
			Command{scripts.FairAcquire, keys, []string{"1000", "u:5", "0", "3000", "1700000000123", "both", "", "0", "60000", "5000"}}},
		"wait, and hear": {l.Acquire(FairRequest{Owner: "u:5", Queue: Queued, Lease: 30 * time.Second, Wait: 3 * time.Second, Next: 5 * time.Second, Hears: true, Tokens: 1}, at),
			Command{scripts.FairAcquire, keys, []string{"30000", "u:5", "1", "3000", "1700000000123", "both", "3000 2000 1 60000", "1", "60000", "5000"}}},
		"a short lease is handed over short": {l.Acquire(FairRequest{Owner: "u:5", Queue: StillQueued, Lease: time.Second, Wait: 3 * time.Second, Next: 5 * time.Second, Hears: true}, at),
			Command{scripts.FairAcquire, keys, []string{"1000", "u:5", "2", "3000", "1700000000123", "both", "3000 1000 0 60000", "0", "60000", "5000"}}},
		"release": {l.Release("u:5", 3*time.Second, at, []Departure{{6, time.Second}, {7, 2 * time.Second}}),
			Command{scripts.FairRelease, keys, []string{"u:5", "3000", "1700000000123", "both", "6", "1000", "7", "2000"}}},
		"leave": {l.Leave([]Departure{{5, time.Second}, {6, 2 * time.Second}}, at),
			Command{scripts.FairLeave, keys, []string{"u", "1700000000123", "both", "5", "1000", "6", "2000"}}},
		"leave without tickets": {l.Leave(nil, at), Command{scripts.FairLeave, keys, []string{"u", "1700000000123", "both"}}},
		"take by force":         {l.ForceUnlock(at), Command{scripts.FairForceUnlock, keys, []string{"1700000000123", "both"}}},
		"inspect": {l.Inspect(),
			Command{scripts.Inspect, []string{"k", "redisson_lock_queue:{k}", "redisson_lock__channel:{k}"}, []string{"both"}}},
	} {
		require.Equal(t, c.want, c.got, name)
	}
	server := time.Unix(1700000000, 5000)
	for name, c := range map[string]struct {
		reply []int64
		want  Verdict
	}{
		"granted":            {[]int64{-2, 7, 0, 0, 0}, Verdict{Wait: Granted, Token: 7}},
		"granted, unplaced":  {[]int64{-2, 0, 2, 0, 0}, Verdict{Wait: Granted, Unplaced: true}},
		"held":               {[]int64{40, 0, 0, 1700000000, 5}, Verdict{Wait: 40, At: server}},
		"free, Java's turn":  {[]int64{-1, 1, 1, 1700000000, 5}, Verdict{Wait: -1, Foreign: true, At: server, Free: true}},
		"free, and unplaced": {[]int64{9, 0, 3, 1700000000, 5}, Verdict{Wait: 9, At: server, Free: true, Unplaced: true}},
	} {
		got, err := ReadFairAcquire(c.reply)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := ReadFairAcquire([]int64{-2, 7})
	require.EqualError(t, err, "2 values in the reply of five")
}

func TestCounting(t *testing.T) {
	t.Parallel()
	p := process()
	s, permits, latch := p.Semaphore("k"), p.PermitSemaphore("k"), p.Latch("k")
	r := Request{Number: 9, Oldest: 8, Keep: 2 * time.Minute}
	keys := []string{"k", "redisson_sc:{k}", "lockgen_requests:{k}:u:semaphore"}
	leases := []string{"k", "redisson_sc:{k}", "{k}:timeout"}
	latchKeys := []string{"k", "redisson_countdownlatch__channel__{k}", "lockgen_requests:{k}:u:latch"}
	marked := append(latchKeys[:3:3], "lockgen_deleted:{k}")
	ids := "0123456789abcdef"
	for name, c := range map[string]struct{ got, want Command }{
		"acquire": {s.Acquire(Round{Request: r, Create: 4}, []int{1, 2}),
			Command{scripts.SemaphoreAcquire, keys, []string{"9", "8", "120000", "0", "4", "both", "1", "2"}}},
		"give up": {s.Acquire(Round{Request: r, Again: true}, nil),
			Command{scripts.SemaphoreAcquire, keys, []string{"9", "8", "120000", "1", "0", "both"}}},
		"add":   {s.Add(r, -3, CreateMissing), Command{scripts.SemaphoreRelease, keys, []string{"9", "8", "120000", "-3", "both", "0"}}},
		"leave": {s.Add(r, 3, LeaveMissing), Command{scripts.SemaphoreRelease, keys, []string{"9", "8", "120000", "3", "both", "1"}}},
		"resize permits": {permits.Add(r, 3, ReportMissing),
			Command{scripts.SemaphoreRelease, []string{"k", "redisson_sc:{k}", "lockgen_requests:{k}:u:permit", "{k}:timeout"}, []string{"9", "8", "120000", "3", "both", "2"}}},
		"create": {s.Create(r, 3, time.Second), Command{scripts.SemaphoreSet, keys, []string{"9", "8", "120000", "3", "both", "1000"}}},
		"create permits": {permits.Create(r, 3, 0),
			Command{scripts.SemaphoreSet, []string{"k", "redisson_sc:{k}", "lockgen_requests:{k}:u:permit", "{k}:timeout"}, []string{"9", "8", "120000", "3", "both", "0"}}},
		"drain": {s.Drain(r), Command{scripts.SemaphoreDrain, []string{"k", "lockgen_requests:{k}:u:semaphore"}, []string{"9", "8", "120000"}}},
		"acquire permits": {permits.AcquirePermits(Round{Request: r, Create: 4}, []Permits{{ids, time.Second}}),
			Command{scripts.PermitAcquire, []string{"k", "redisson_sc:{k}", "lockgen_requests:{k}:u:permit", "{k}:timeout"},
				[]string{"9", "8", "120000", "0", "4", "both", ids, "1000"}}},
		"release permits": {permits.Release(ids, MissingOf(0)), Command{scripts.PermitRelease, leases, []string{ids, "both", "0", "0"}}},
		"release all or none": {permits.ReleaseAll(r, ids, MissingOf(1)),
			Command{scripts.PermitRelease, append(leases[:3:3], "lockgen_requests:{k}:u:permit"), []string{ids, "both", "1", "1", "9", "8", "120000"}}},
		"set total":     {permits.SetTotal(r, 7), Command{scripts.PermitSet, append(leases[:3:3], "lockgen_requests:{k}:u:permit"), []string{"9", "8", "120000", "7", "both"}}},
		"ask a lease":   {permits.Lease(ids), Command{scripts.PermitLease, leases, []string{ids, "both", ""}}},
		"set a lease":   {permits.SetLease(ids, time.Second), Command{scripts.PermitLease, leases, []string{ids, "both", "1000"}}},
		"for ever":      {permits.SetLease(ids, -1), Command{scripts.PermitLease, leases, []string{ids, "both", "-1"}}},
		"count permits": {permits.Count(7), Command{scripts.PermitCount, leases, []string{"both", "7"}}},
		"start a latch": {latch.Start(r, 3), Command{scripts.LatchSet, marked, []string{"9", "8", "120000", "3", "both", "1"}}},
		"count down":    {latch.CountDown(r), Command{scripts.LatchDown, latchKeys, []string{"9", "8", "120000", "0", "both"}}},
		"count a latch": {latch.Count(), Command{scripts.LatchCount, []string{"k", "lockgen_deleted:{k}"}, nil}},
		"delete":        {latch.Delete(r), Command{scripts.LatchDelete, marked, []string{"9", "8", "120000", "1", "both"}}},
	} {
		require.Equal(t, c.want, c.got, name)
	}
	for lasts, want := range map[int64]time.Duration{-1: -time.Millisecond, -2: 0, 70: 70 * time.Millisecond} {
		v, err := ReadPermits([]int64{2, -1, lasts})
		require.NoError(t, err)
		require.Equal(t, PermitVerdict{Served: 2, Next: -time.Millisecond, Lasts: want}, v)
	}
	for _, centuries := range []int64{3, 6} { // a Duration has less than three
		ms := centuries * 100 * 365 * 24 * time.Hour.Milliseconds()
		v, err := ReadPermits([]int64{0, ms, ms})
		require.NoError(t, err)
		require.Equal(t, v.Next, v.Lasts)
		require.Greater(t, v.Next.Hours(), 200*365*24.0)
		require.Greater(t, v.Next+time.Minute, v.Next)
	}
	_, err := ReadPermits([]int64{2, -1})
	require.Error(t, err)
	available, taken, err := ReadPermitCount([]int64{-1, 5})
	require.NoError(t, err)
	require.Equal(t, []int{-1, 5}, []int{available, taken})
	_, _, err = ReadPermitCount([]int64{1})
	require.Error(t, err)
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	for kind, keys := range map[Renewal][]string{
		RenewLock:    {"k"},
		RenewReader:  {"k", "{k}:u:5:rwlock_timeout:1"},
		RenewPermits: {"k", "redisson_sc:{k}", "{k}:timeout"},
	} {
		gotKeys, args := kind.Renew([]string{"before"}, []string{"this"}, "k", "u:5", time.Second)
		require.Equal(t, append([]string{"before"}, keys...), gotKeys)
		require.Equal(t, []string{"this", "u:5", "1000"}, args)
	}
	renewed, err := ReadRenewals([]int64{1, 0, 2}, 3)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true}, []bool{renewed.Has(0), renewed.Has(1), renewed.Has(2)})
	require.Negative(t, renewed.Lasts(0))
	require.Equal(t, 2*time.Millisecond, renewed.Lasts(2))
	_, err = ReadRenewals([]int64{1}, 2)
	require.EqualError(t, err, "1 replies to 2 renewals")
}

// TestSentAgain shows that a round that is sent again is the same as one that was in doubt before, and leaves the first alone.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	p := NewProcess(NewUUID(ListensPlain), PublishPlain, time.Minute, 30*time.Second)
	s, permits := p.Semaphore("k"), p.PermitSemaphore("k")
	first, doubt := Round{Request: Request{7, 5, time.Minute}, Create: 4}, Round{Request: Request{7, 5, time.Minute}, Create: 4, Again: true}
	for _, c := range [][2]Command{
		{s.Acquire(first, []int{1, 2}), s.Acquire(doubt, []int{1, 2})},
		{permits.AcquirePermits(first, []Permits{{"0123456789abcdef", time.Second}}), permits.AcquirePermits(doubt, []Permits{{"0123456789abcdef", time.Second}})},
	} {
		require.NotEqual(t, c[1], c[0])
		require.Equal(t, c[1], SentAgain(c[0]))
		require.NotEqual(t, c[1], c[0])
		require.Equal(t, c[1], SentAgain(c[1]))
	}
}
