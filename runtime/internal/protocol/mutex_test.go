package protocol

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// process is what the tests send for.
func process() *Process {
	p := NewProcess("u", PublishBoth, time.Minute, 30*time.Second)
	return &p
}

func TestNewProcess_ConvertsDurationsToMilliseconds(t *testing.T) {
	t.Parallel()
	p := process()
	require.Equal(t, "30000", p.millis(30*time.Second))
	require.Equal(t, "1", p.millis(1999*time.Microsecond))
	require.Equal(t, "60000", p.keepTokens)
}

// A request that is appended leaves alone what others have appended before.
func TestMutex(t *testing.T) {
	t.Parallel()
	p := process()
	const second = time.Second
	for _, c := range []struct {
		name       string
		send       func(to *Texts)
		keys, args []string
	}{
		{"take", func(to *Texts) { p.Take(to, "k", 5, second) },
			[]string{"k"}, []string{"u:5", "1000"}},
		{"acquire", func(to *Texts) {
			p.Acquire(to, "k", Ticket{Number: 5}, NotQueued, 0, second)
		}, []string{"k", "lockgen_waiting:{k}", "redisson_lock_token:{k}"}, []string{"1000", "u:5", "0", "0", "60000"}},
		{"acquire with tokens, in the wait queue", func(to *Texts) {
			p.Acquire(to, "k", Ticket{Number: 5, Tokens: 3}, StillQueued, 4, 30*second)
		}, []string{"k", "lockgen_waiting:{k}", "redisson_lock_token:{k}"}, []string{"30000", "u:5+3,60000", "2", "4", "60000"}},
		{"free", func(to *Texts) {
			p.Free(to, "k", 5)
			p.Free(to, "{l}", 6)
		}, []string{"k", "{l}", "lockgen_waiting:{k}", "lockgen_waiting:{l}"}, []string{"u:5", "u:6"}},
		{"release", func(to *Texts) { p.Release(to, "k", Release{Of: Ticket{Number: 5}}) },
			[]string{"k", "lockgen_waiting:{k}", "redisson_lock__channel:{k}", "redisson_lock_token:{k}"}, []string{"u:5", "", "0", "0"}},
		{"release to a ticket of the same process", func(to *Texts) {
			p.Release(to, "k", Release{Of: Ticket{Number: 5, Tokens: 1}, Start: 20 * time.Millisecond, Again: Ticket{Number: 6, Tokens: 2}, Lease: second})
		}, []string{"k", "lockgen_waiting:{k}", "redisson_lock__channel:{k}", "redisson_lock_token:{k}"},
			[]string{"u:5+1,60000", "u:6+2,60000", "1000", "20"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := Texts{Keys: []string{"before"}, Args: []string{"and", "this"}}
			c.send(&x)
			new(Batch).End(&x, 1)
			require.Equal(t, append([]string{"before"}, c.keys...), x.Keys)
			require.Equal(t, append([]string{"and", "this"}, c.args...), x.Args)
		})
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	p := process()
	for _, c := range []struct{ got, want Batch }{
		{p.Takes(), Batch{Script: scripts.Take, Shares: true}},
		{p.Acquires(), Batch{Script: scripts.Acquire}},
		{p.Frees(), Batch{Script: scripts.Free, Common: []string{"0", "both"}, Channel: true}},
		{p.Releases(), Batch{Script: scripts.Release, Common: []string{"0", "both", "2000"}}},
		{p.Renewals(RenewLock), Batch{Script: scripts.Renew}},
		{p.Renewals(RenewReader), Batch{Script: scripts.RWReadRenew}},
		{p.Renewals(RenewPermits), Batch{Script: scripts.PermitRenew, Common: []string{"both"}}},
	} {
		require.Equal(t, c.want, c.got)
	}
}

// The texts of one request take one allocation, and those of many few more, whatever is written behind them.
func TestTexts(t *testing.T) { // testing.AllocsPerRun does not allow parallel tests
	p := process()
	const many = 100
	x := Texts{Keys: make([]string, 0, 2*many+1), Args: make([]string, 0, 2*many)}
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint("key", i)
	}
	takes := func(n int) {
		x.Begin(n, nil)
		for i, key := range names[:n] {
			p.Take(&x, key, uint64(i), 30*time.Second)
		}
	}
	frees := func(n int) {
		x.Begin(n, nil)
		for i, key := range names[:n] {
			p.Free(&x, key, uint64(i))
		}
		batch := Batch{Channel: true}
		batch.End(&x, n)
	}
	for more, send := range []func(n int){takes, frees} { // the name of a channel is a string of its own
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { send(1) }), 1.0+float64(more))
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { send(many) }), 4.0+float64(more))
	}
	takes(many)
	for i, key := range names {
		require.Equal(t, []string{key, p.Owner(uint64(i)), "30000"}, []string{x.Keys[i], x.Args[2*i], x.Args[2*i+1]})
	}
	frees(many)
	for i, key := range names {
		require.Equal(t, []string{key, mutexNamesOf(key).waiting, p.Owner(uint64(i))}, []string{x.Keys[i], x.Keys[many+i], x.Args[i]})
	}
}

// The lease of many requests stands once behind their owners if it is the same for all, and if they are for different keys.
func TestBatch_Shares(t *testing.T) {
	t.Parallel()
	p := process()
	for _, c := range []struct {
		common []string
		keys   string
		leases []time.Duration
		want   []string
	}{
		{nil, "a", []time.Duration{time.Second}, []string{"u:0", "1000"}},
		{nil, "ab", []time.Duration{time.Second, time.Second}, []string{"u:0", "u:1", "1000"}},
		{[]string{"first"}, "abc", []time.Duration{time.Second, time.Second, time.Second}, []string{"first", "u:0", "u:1", "u:2", "1000"}},
		{[]string{"first"}, "ab", []time.Duration{time.Second, time.Minute}, []string{"first", "u:0", "1000", "u:1", "60000"}},
		{nil, "abc", []time.Duration{time.Minute, time.Second, time.Second}, []string{"u:0", "60000", "u:1", "1000", "u:2", "1000"}},
		{nil, "aba", []time.Duration{time.Second, time.Second, time.Second}, []string{"u:0", "1000", "u:1", "1000", "u:2", "1000"}},
	} {
		var x Texts
		for range 2 { // a command changes nothing in the next one
			x.Begin(len(c.leases), c.common)
			for i, lease := range c.leases {
				p.Take(&x, c.keys[i:i+1], uint64(i), lease)
			}
			other := slices.Clone(x.Args)
			batch := Batch{Common: c.common}
			batch.End(&x, len(c.leases))
			require.Equal(t, other, x.Args, "of a script that does not know it")
			batch.Shares = true
			batch.End(&x, len(c.leases))
			require.Equal(t, c.want, x.Args)
			require.Equal(t, strings.Split(c.keys, ""), x.Keys)
		}
	}
}

// A command keeps its texts when those of another one are made.
func TestTexts_StayAsTheyAre(t *testing.T) {
	t.Parallel()
	p := process()
	x, batch := Texts{left: 8}, p.Frees()
	p.Free(&x, "k", 5)
	batch.End(&x, 1)
	keys, args := slices.Clone(x.Keys), slices.Clone(x.Args)
	p.Take(&x, "another", 12345678, time.Second)
	p.Free(&x, "a longer one", 6)
	x.Clear()
	p.Free(&x, "other", 7)
	batch.End(&x, 1)
	require.Equal(t, []string{"k", "lockgen_waiting:{k}", "redisson_lock__channel:{k}"}, keys)
	require.Equal(t, []string{"u:5"}, args)
	require.Equal(t, []string{"other", "lockgen_waiting:{other}", "redisson_lock__channel:{other}"}, x.Keys)
}

func TestReadAcquire(t *testing.T) {
	t.Parallel()
	require.Equal(t, Verdict{Wait: Granted, Token: 7}, ReadAcquire(Answer{-2, 7}))
	require.True(t, ReadAcquire(Answer{-2}).Granted())
	at := time.Unix(1700000000, 123456*1000)
	require.Equal(t, Verdict{Wait: 900, Foreign: true, At: at}, ReadAcquire(Answer{900, 1, 1700000000, 123456}))
	require.Equal(t, Verdict{Wait: -1, At: at}, ReadAcquire(Answer{-1, 0, 1700000000, 123456}))
	require.False(t, ReadAcquire(Answer{-1}).Granted())
}

func TestReadRelease(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 123456*1000)
	for _, outcome := range []Outcome{NotOurs, PassedOn, Kept, Contended} {
		require.Equal(t, Released{Outcome: outcome, At: at, Token: 9}, ReadRelease(Answer{int64(outcome), 1700000000, 123456, 9}))
	}
	require.Equal(t, Released{Outcome: Freed, At: at}, ReadRelease(Answer{0, 1700000000, 123456, 0}))
	require.Equal(t, Released{Outcome: Freed, At: at, Listeners: 2}, ReadRelease(Answer{0, 1700000000, 123456, 2}))
}

func TestMutex_Commands(t *testing.T) {
	t.Parallel()
	p := process()
	require.Equal(t, Command{
		scripts.ForceUnlock,
		[]string{"k", "lockgen_waiting:{k}", "redisson_lock__channel:{k}", "redisson_lock_token:{k}"}, []string{"0", "both", "2000"},
	}, p.ForceUnlock("k"))
	require.Equal(t, Command{scripts.Raise, []string{"redisson_lock_token:{k}"}, []string{"9007199254740993", "60000"}},
		p.RaiseToken("k", 1<<53+1))
	require.Equal(t, Command{scripts.Inspect, []string{"k", "lockgen_waiting:{k}", "redisson_lock__channel:{k}"}, []string{"both"}}, p.Inspect("k"))
}

func TestReadInspection(t *testing.T) {
	t.Parallel()
	in, err := ReadInspection([]any{int64(-2), int64(1), int64(2)})
	require.NoError(t, err)
	require.Equal(t, Inspection{Waiting: 1, Listening: 2}, in, "a free lock has no time to live")
	in, err = ReadInspection([]any{int64(1500), int64(0), int64(0), "u:5", "2", "u:6", "x"})
	require.NoError(t, err)
	require.Equal(t, Inspection{TTL: 1500 * time.Millisecond, Fields: []Field{{"u:5", "2"}, {"u:6", "x"}}}, in)
	count, err := in.Fields[0].Count()
	require.NoError(t, err)
	require.Equal(t, 2, count)
	_, err = in.Fields[1].Count()
	require.ErrorContains(t, err, `the hold count "x" is no number`)
	in, err = ReadInspection([]any{int64(-1), int64(0), int64(0), "u:5", "1"})
	require.NoError(t, err)
	require.Equal(t, -time.Millisecond, in.TTL, "it does not expire")
	in, err = ReadInspection([]any{6 * 100 * 365 * 24 * time.Hour.Milliseconds(), int64(0), int64(0), "u:5", "1"})
	require.NoError(t, err)
	require.Greater(t, in.TTL.Hours(), 200*365*24.0, "a Java program has it for six centuries")
	for _, bad := range []any{
		nil, int64(1), []any{}, []any{int64(1), int64(2)}, []any{int64(1), int64(2), int64(3), "u:5"},
		[]any{int64(1), "2", int64(3)}, []any{int64(1), int64(2), int64(3), int64(4), "1"}, []any{int64(1), int64(2), int64(3), "u:5", int64(1)},
	} {
		_, err := ReadInspection(bad)
		require.ErrorContains(t, err, "inspect: ", "%v", bad)
	}
}

func TestParseMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Message{
		"granted 5 1700000000123456 1 77 6 7 of fair a of b": {
			Kind: MessageGranted, Number: 5, Lock: AboutFair, Key: "a of b",
			Granted: time.UnixMicro(1700000000123456), Others: true, Token: 77, Behind: []uint64{6, 7},
		},
		"granted 5 1700000000123456 0 0 of lock k": {
			Kind: MessageGranted, Number: 5, Lock: AboutLock, Key: "k", Granted: time.UnixMicro(1700000000123456),
		},
		"granted 5 1700000000123456": {Kind: MessageGranted, Number: 5, Granted: time.UnixMicro(1700000000123456)},
		"granted 5 soon":             {Kind: MessageGranted, Number: 5},
		"granted 5 1 0 0 6 x 7":      {Kind: MessageGranted, Number: 5, Granted: time.UnixMicro(1), Behind: []uint64{6, 7}},
		"wanted 5 of rw k":           {Kind: MessageWanted, Number: 5, Lock: AboutRW, Key: "k"},
		"taken 5":                    {Kind: MessageTaken, Number: 5},
		"look 18446744073709551615":  {Kind: MessageLook, Number: 18446744073709551615},
		"soon 5 2000":                {Kind: MessageSoon, Number: 5, After: 2 * time.Second, Timed: true},
		"soon 5 99999999999999":      {Kind: MessageSoon, Number: 5, After: Milliseconds(math.MaxInt64), Timed: true},
		"soon 5":                     {Kind: MessageSoon, Number: 5},
		"other 5":                    {Kind: "other", Number: 5},
	} {
		got, ok := ParseMessage(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "granted", "granted x", "granted -1", " of lock k"} {
		_, ok := ParseMessage(text)
		require.False(t, ok, text)
	}
}

func TestMessagesOfRedisson(t *testing.T) {
	t.Parallel()
	for payload, forRedisson := range map[string]bool{"0": false, "1": false, "00": true, "01": true, "": false} {
		require.Equal(t, forRedisson, ForRedisson(payload), payload)
	}
	require.True(t, OpensLatch("0"))
	require.False(t, OpensLatch("1"))
	require.True(t, ClosesLatch("1"))
	require.False(t, ClosesLatch(""))
}
