package demo

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/lockgen/lockgen/examples/orders/shop"
)

// A kind is the kind of an event, as it is printed.
type kind string

const (
	isReady  kind = "ready"
	hasEnded kind = "ended"

	waits    kind = "waits"
	holds    kind = "holds"
	frees    kind = "frees"
	skips    kind = "skips"
	renews   kind = "renews"
	loses    kind = "LOSES"
	pays     kind = "pays"
	packs    kind = "packs"
	ships    kind = "ships"
	finds    kind = "finds" // nothing left to do
	hangs    kind = "hangs"
	kills    kind = "KILLS"
	takes    kind = "TAKES"
	paysMore kind = "PAYS" // again for a paid order
	packMore kind = "PACKS"
)

// An event is one message of a replica, as a line of JSON.
type event struct {
	At      time.Time
	Replica int // 0 for the operator
	Kind    kind
	Text    string       `json:",omitempty"`
	Order   shop.OrderID `json:",omitempty"` // the order that hangs
	Err     string       `json:",omitempty"` // why the process ended, empty without an error
}

// A teller writes the events of one replica.
type teller struct {
	replica int

	mu  sync.Mutex // guards out
	out io.Writer
}

// tell writes one event. It ignores an error: nobody is left to read it.
func (t *teller) tell(e event) {
	e.At, e.Replica = time.Now(), t.replica
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.out.Write(append(line, '\n'))
}
