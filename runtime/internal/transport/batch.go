package transport

import (
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// Outbox returns an outbox without batchers.
func (t *Transport) Outbox() *Outbox {
	box := &Outbox{net: t, turn: new(turn)}
	box.one = newSenders(box, 0)
	if t.cluster != nil {
		box.slots = make(map[uint16]*senders)
	}
	return box
}

// Batcher returns a batcher for a script. grants says that its requests lock. If replicas have to confirm that, nothing else waits for such a
// script: its requests are in an outbox of their own.
func (box *Outbox) Batcher(batch protocol.Batch, grants bool) *Batcher {
	if grants && box.net.cfg.Replicas > 0 {
		box = box.net.Outbox()
		box.confirms, box.turn = true, nil
	}
	return box.add(&kind{batch: batch, grants: grants, most: mostBatched})
}

// Reviewer returns a batcher for requests that are in no hurry and lock: those of waiters that ask again after a long time, in case a message
// was lost. They gather before they are sent. One script handles more of them, and the next one waits for its answer.
func (t *Transport) Reviewer(batch protocol.Batch) *Batcher {
	box := t.Outbox()
	box.gathers, box.confirms, box.turn = true, t.cfg.Replicas > 0, nil
	return box.add(&kind{batch: batch, grants: true, most: mostReviewed})
}

func (box *Outbox) add(k *kind) *Batcher {
	box.mu.Lock()
	defer box.mu.Unlock()
	k.n, box.kinds = len(box.kinds), append(box.kinds, k)
	box.one.of = append(box.one.of, queue{})
	for _, s := range box.slots {
		s.of = append(s.of, queue{})
	}
	return &Batcher{box, k.n}
}

// SubmitAll sends all of rs, soon, in one script unless they are very many, or in different slots: no request is sent before
// all are queued. inline is as with Submit, if there is one slot.
func (b *Batcher) SubmitAll(rs []Request, inline bool) {
	if len(rs) == 0 {
		return
	}
	box := b.box
	box.net.crowd.joins(len(rs))
	var room [1]*senders
	to := room[:0]
	box.mu.Lock()
	for _, r := range rs {
		s := box.of(r.Key())
		s.add(b.kind, r)
		if s.adding++; s.adding == 1 {
			to = append(to, s)
		}
	}
	var c *call
	var own *exclusive
	for _, s := range to {
		c, own = s.begin(b.kind, s.adding, inline && len(to) == 1)
		s.adding = 0
	}
	box.mu.Unlock()
	if c != nil {
		c.runAlone(own)
	}
}
