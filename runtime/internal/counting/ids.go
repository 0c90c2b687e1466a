package counting

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// NewIDs returns new ids for n permits of the client uuid.
func NewIDs(uuid string, n int) string {
	raw := make([]byte, n*protocol.PermitLength)
	_, _ = rand.Read(raw) // never fails: it ends the process instead
	hint, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	for at := 0; err == nil && at < len(raw); at += protocol.PermitLength {
		copy(raw[at:at+protocol.PermitHint], hint)
	}
	return string(raw)
}

// RawIDs returns ids in the form of Redis, each once.
func RawIDs(ids ...string) (string, error) {
	var raw []string
	for _, id := range ids {
		b, err := hex.DecodeString(id)
		if err != nil || len(b) != protocol.PermitLength {
			return "", fmt.Errorf("%w: the permit id %q is not 32 hexadecimal digits", failure.ErrBadOption, id)
		}
		raw = append(raw, string(b))
	}
	slices.Sort(raw)
	return strings.Join(slices.Compact(raw), ""), nil
}

// without returns the ids that are not among some.
func without(ids, some string) string {
	gone := map[string]bool{}
	for id := range slices.Chunk([]byte(some), protocol.PermitLength) {
		gone[string(id)] = true
	}
	var left []byte
	for id := range slices.Chunk([]byte(ids), protocol.PermitLength) {
		if !gone[string(id)] {
			left = append(left, id...)
		}
	}
	return string(left)
}
