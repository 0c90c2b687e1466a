package protocol

import (
	"encoding/hex"
	"slices"
	"strings"
)

// Owners names the place in which Redis has the owners of a key: of a lock, or of the permits that are taken.
type Owners struct {
	Key     string
	Permits bool
}

// ReadOwners returns the owners of a lock from its fields and their values, and whether they read.
func ReadOwners(fields []string) (owners []string, reads bool) {
	for field := range slices.Chunk(fields, 2) {
		if field[0] == "mode" {
			reads = field[len(field)-1] == "read"
			continue
		}
		owners = append(owners, field[0])
	}
	return owners, reads
}

const (
	// PermitLength is the length of a permit's id in Redis, in bytes.
	PermitLength = 16

	// PermitHint is how many bytes of its client's id the id of a permit begins with: they tell which process holds it.
	PermitHint = 6
)

// PermitIDs returns the ids of permits that Redis has in one text, as programs know them.
func PermitIDs(raw string) (ids []string) {
	for id := range slices.Chunk([]byte(raw), PermitLength) {
		ids = append(ids, hex.EncodeToString(id))
	}
	return ids
}

// PermitClients returns the pattern of the channels of the clients of which one may have a permit, by the id of the permit, and
// whether the client uuid is one of them.
func PermitClients(id, uuid string) (pattern string, own bool) {
	hint := id[:2*PermitHint]
	begins := hint[:8] + "-" + hint[8:] + "-8"
	return ProcessChannel(begins + strings.Repeat("?", len(uuid)-len(begins))), strings.HasPrefix(uuid, begins)
}
