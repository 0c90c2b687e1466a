package protocol

import (
	"fmt"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// Renewal says what kind of lease is renewed.
type Renewal int

// A script renews leases of one kind.
const (
	RenewLock    Renewal = iota // of a mutex, a fair lock or a writer
	RenewReader                 // of a reader
	RenewPermits                // of permits; the owner is their ids
)

// Renewals is the batch of renewals of one kind. [ReadRenewals] reads its reply.
func (p *Process) Renewals(r Renewal) Batch {
	switch r {
	case RenewReader:
		return Batch{Script: scripts.RWReadRenew}
	case RenewPermits:
		return Batch{Script: scripts.PermitRenew, Common: []string{p.publish}}
	}
	return Batch{Script: scripts.Renew}
}

// Renew appends the renewal of what an owner has of a key.
func (r Renewal) Renew(keys, args []string, key, owner string, lease time.Duration) (allKeys, allArgs []string) {
	keys = append(keys, key)
	switch r {
	case RenewReader:
		keys = append(keys, readerHold(key, owner))
	case RenewPermits:
		keys = append(keys, CountChannel(key), PermitLeases(key))
	}
	return keys, append(args, owner, millis(lease))
}

// ReadRenewals reads the reply to n renewals: whether each owner has its key for the whole lease.
func ReadRenewals(reply []int64, n int) (Renewed, error) {
	if len(reply) != n {
		return nil, fmt.Errorf("%d replies to %d renewals", len(reply), n)
	}
	return reply, nil
}

// Renewed is what a script renewed, in the order of the requests.
type Renewed []int64

// Has reports whether the owner of request i has its key.
func (r Renewed) Has(i int) bool { return r[i] > 0 }

// Lasts returns for how long the owner of request i has its key, however often it is renewed: negative for ever.
func (r Renewed) Lasts(i int) time.Duration {
	if r[i] == 1 {
		return -1
	}
	return Milliseconds(r[i])
}
