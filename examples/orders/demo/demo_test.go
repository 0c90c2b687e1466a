package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/orders/shop"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	cfg := Config{Orders: 2}
	bad := tally{payments: map[shop.OrderID]int{"A-1": 2, "A-2": 1}, pieces: 2, stock: 1, reports: 2}
	good := tally{payments: map[shop.OrderID]int{"A-1": 1, "A-2": 1}, pieces: 1, stock: 1, reports: 1}
	unpaid, oversold, reported := good, good, good
	unpaid.payments = map[shop.OrderID]int{"A-1": 1}
	oversold.pieces = 2
	reported.reports = 2
	tests := []struct {
		name          string
		without, with tally
		want          string
	}{
		{"as it should be", bad, good, ""},
		{"no damage without", good, good, "act one: no order was paid twice, so nothing was shown; try a longer -work"},
		{"paid twice", bad, bad, "act two: 1 payments too many in spite of the locks"},
		{"oversold", bad, oversold, "act two: 1 pieces oversold in spite of the locks"},
		{"reported twice", bad, reported, "act two: 2 reports of one day"},
		{"not paid", bad, unpaid, "act two: 1 of 2 orders paid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := verdict(cfg, tt.without, tt.with)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.want)
			}
		})
	}
}

func TestPrinter_SortsWhatSeveralProcessesTell(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var out strings.Builder
	p := &printer{out: &out}
	p.begin(start)
	p.add(event{At: start.Add(3 * time.Millisecond), Replica: 2, Kind: holds, Text: "order:A-1"})
	p.add(event{At: start.Add(2 * time.Millisecond), Replica: 1, Kind: pays, Text: "order A-1"})
	p.add(event{At: start.Add(9 * time.Millisecond), Kind: kills, Text: "replica 1"})
	p.flush(start.Add(5 * time.Millisecond))
	require.Equal(t, "  0.002s  replica 1  pays    order A-1\n  0.003s  replica 2  holds   order:A-1\n", out.String())
	out.Reset()
	p.flush(start.Add(time.Second))
	require.Equal(t, "  0.009s  operator   KILLS   replica 1\n", out.String())
}

func TestPrinter_PaintsOnlyIfAsked(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\x1b[1;31mLOSES\x1b[0m", (&printer{colour: true}).paint(red, "LOSES"))
	require.Equal(t, "LOSES", (&printer{}).paint(red, "LOSES"))
}

func TestPrinter_TableShowsDamageInRed(t *testing.T) {
	t.Parallel()
	bad := tally{payments: map[shop.OrderID]int{"A-1": 2}, pieces: 2, stock: 1, reports: 3, took: time.Second}
	good := tally{payments: map[shop.OrderID]int{"A-1": 1}, pieces: 1, stock: 1, reports: 1, took: 5 * time.Second}
	const header = "            act  orders paid  payments taken  double payments  pieces oversold  day reports  time"
	const first = "  without locks            1               2                1                1            3  1.0s"
	const second = "     with locks            1               1                0                0            1  5.0s"
	var out strings.Builder
	(&printer{out: &out}).table(bad, good)
	require.Equal(t, header+"\n"+first+"\n"+second+"\n", out.String())
	out.Reset()
	(&printer{out: &out, colour: true}).table(bad, good)
	require.Equal(t, header+"\n\x1b[1;31m"+first+"\x1b[0m\n\x1b[32m"+second+"\x1b[0m\n", out.String())
}

func TestAfterWaiting(t *testing.T) {
	t.Parallel()
	require.Empty(t, afterWaiting(9*time.Millisecond))
	require.Equal(t, ", after 10ms", afterWaiting(10*time.Millisecond+300*time.Microsecond))
}
