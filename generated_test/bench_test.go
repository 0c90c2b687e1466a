package generatedtest_test

import (
	"fmt"
	"testing"

	gen "github.com/lockgen/lockgen/generated_test"
)

// BenchmarkKey builds the same key in two ways. The one with fmt is not even safe: it escapes
// nothing.
func BenchmarkKey(b *testing.B) {
	seat := gen.Seat{Show: 4711, Row: "a1", No: 17}
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sinkString, sinkError = gen.LocksKeys{}.Seat(seat)
		}
	})
	b.Run("sprintf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sinkString = fmt.Sprintf("gen/shop:seat:%d/%s:%d:%t", seat.Show, seat.Row, seat.No, seat.Aisle)
		}
	})
}
