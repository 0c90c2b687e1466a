package transport

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

const (
	// askPause is how long an answer to that question counts as current. It is twice as long after each further answer
	// that is the same, up to askRarely.
	askPause  = 20 * time.Millisecond
	askRarely = 100 * time.Millisecond
	// askGrace is how much longer than the first server the others have for their answers.
	askGrace = 50 * time.Millisecond
	// askPatience is the time limit of the first server.
	askPatience = time.Second
)

// ask asks the servers which of them has which slot, and returns when that is known, or no server says so in time.
func (cl *cluster) ask() {
	cl.mu.Lock()
	if done := cl.asking; done != nil {
		cl.mu.Unlock()
		<-done
		return
	}
	done := make(chan struct{})
	cl.asking = done
	pause := max(cl.pause, askPause) - time.Since(cl.asked)
	cl.mu.Unlock()
	if pause > 0 {
		cl.net.pause(pause)
	}
	voted, err := cl.vote()
	var moved *[protocol.Slots]bool
	defer func() {
		close(done)
		if moved != nil {
			cl.moved(moved)
		}
	}()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.asking, cl.asked = nil, time.Now()
	cl.pause = min(2*max(cl.pause, askPause/2), askRarely)
	if voted != nil {
		cl.silent = false
		if moved = cl.learn(voted); moved != nil {
			cl.pause = askPause
		}
	} else if err != nil && !cl.silent {
		cl.silent = true
		cl.net.cfg.Logger.Warn("lockgen: the cluster does not say which server has what; waiters ask by timer until it does", "error",
			fmt.Errorf("a permission is missing, which ACL LOG on the server names: %w", err))
	}
}

// owners are the servers that have the slots.
type owners struct {
	addrs []string               // of servers; the first one for none
	of    [protocol.Slots]uint16 // their places in addrs
}

// place returns the place of an address.
func (o *owners) place(addr string) uint16 {
	i := slices.Index(o.addrs, addr)
	if i < 0 {
		i = len(o.addrs)
		o.addrs = append(o.addrs, addr)
	}
	return uint16(i)
}

// vote returns the owners that most servers name, of those that answer about as soon as the first one. If none does it
// returns nil, and an error if the question is not permitted.
func (cl *cluster) vote() (*owners, error) {
	type answer struct {
		said []span
		err  error
	}
	nodes := cl.net.rc.Nodes()
	answers := make(chan answer, len(nodes))
	for addr, node := range nodes {
		cl.net.cfg.User.Go(func() {
			said, err := spans(addr, node)
			answers <- answer{said, err}
		})
	}
	var failure error
	timer := time.NewTimer(askPatience)
	defer timer.Stop()
	o := &owners{addrs: []string{""}}
	votes := map[string]*[protocol.Slots]uint8{}
	most := new([protocol.Slots]uint8)
	for missing := len(nodes); missing > 0; missing-- {
		select {
		case a := <-answers:
			if said, ok := rueidis.IsRedisErr(a.err); ok && denied(said.Error()) {
				failure = a.err
			}
			if a.said != nil && len(votes) == 0 {
				timer.Reset(askGrace)
			}
			for _, sp := range a.said {
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
			continue
		case <-timer.C:
		case <-cl.net.cfg.Stopped:
		}
		break
	}
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
	return all, nil
}
