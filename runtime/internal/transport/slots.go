package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// owners are the servers that have the slots.
type owners struct {
	addrs []string               // of servers; the first one for none
	of    [protocol.Slots]uint16 // their places in addrs
}

func newOwners() *owners { return &owners{addrs: []string{""}} }

// addr returns the address of the server that has a slot, or nothing.
func (o *owners) addr(slot uint16) string { return o.addrs[o.of[slot]] }

// place returns the place of an address.
func (o *owners) place(addr string) uint16 {
	i := slices.Index(o.addrs, addr)
	if i < 0 {
		i = len(o.addrs)
		o.addrs = append(o.addrs, addr)
	}
	return uint16(i)
}

// askGrace is how much longer than the first server the others have for their answers.
const askGrace = 50 * time.Millisecond

// vote waits for the first server, and returns the owners that most servers name, of those that answer about as soon as the first one. If none does it
// returns nil, and an error if the question is not permitted.
func (l *link) vote() (*owners, error) {
	var failure error
	o := newOwners()
	votes := map[string]*[protocol.Slots]uint8{}
	most := new([protocol.Slots]uint8)
	fromAll(l, askGrace, spans, func(said []span, err error) {
		if said, ok := rueidis.IsRedisErr(err); ok && denied(said.Error()) {
			failure = err
		}
		for _, sp := range said {
			tally := votes[sp.addr]
			if tally == nil {
				tally = new([protocol.Slots]uint8)
				votes[sp.addr] = tally
			}
			place := o.place(sp.addr)
			for i := sp.first; i <= sp.last; i++ {
				if tally[i]++; tally[i] > most[i] {
					most[i], o.of[i] = tally[i], place
				}
			}
		}
	})
	if len(votes) == 0 {
		return nil, failure
	}
	return o, nil
}

// A span is some slots that one server has.
type span struct {
	first, last int64
	addr        string
}

// errNoSlots is the error of a server that names no owner of a slot: one that has just been started, and knows no other one yet.
var errNoSlots = errors.New("no slot has an owner")

// spans asks a server, which has the address addr, for the owners of slots.
func spans(addr string, node rueidis.Client) (all []span, err error) {
	reply, err := node.Do(context.Background(), node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for i := range reply {
		words, err := reply[i].ToArray()
		if err != nil || len(words) < 3 {
			continue
		}
		first, err1 := words[0].AsInt64()
		last, err2 := words[1].AsInt64()
		master, err3 := words[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || first < 0 || last >= protocol.Slots || len(master) < 2 {
			continue
		}
		host, _ := master[0].ToString() // empty if it is that of the answering server
		port, err := master[1].AsInt64()
		if host == "" {
			host, _, _ = net.SplitHostPort(addr)
		}
		if err == nil && host != "?" {
			all = append(all, span{first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
		}
	}
	if len(all) == 0 {
		return nil, errNoSlots
	}
	return all, nil
}
