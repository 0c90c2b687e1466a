package load

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lockgen/lockgen/examples/service/shop"
)

// work is how long the bank and the carrier take.
const work = 5 * time.Millisecond

// partners are the bank and the carrier. They count how many requests come at once, which no
// replica can see.
type partners struct {
	url    string
	server *http.Server

	mu     sync.Mutex
	held   map[shop.OrderID]*heldCheck
	labels int // in print at this moment
	most   int // the largest number so far
}

// A heldCheck is a payment whose answer the bank delays: the replica that asks holds its locks meanwhile.
type heldCheck struct {
	wanted  int           // the number of requests that arrived waits for
	arrived chan struct{} // closed when they have arrived
	answer  chan struct{} // closed to answer all of them
}

func startPartners() (*partners, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &partners{url: "http://" + listener.Addr().String(), held: map[shop.OrderID]*heldCheck{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /check/{id}", p.check)
	mux.HandleFunc("POST /label/{id}", p.label)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }() // until Close
	return p, nil
}

// hold makes the bank delay its answers to the next requests for an order, as many as wanted. It answers later ones at
// once.
func (p *partners) hold(id shop.OrderID, wanted int) *heldCheck {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &heldCheck{wanted: wanted, arrived: make(chan struct{}), answer: make(chan struct{})}
	p.held[id] = h
	return h
}

// await returns when the requests have arrived.
func (h *heldCheck) await(ctx context.Context) error {
	select {
	case <-h.arrived:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *partners) check(_ http.ResponseWriter, r *http.Request) {
	id := shop.OrderID(r.PathValue("id"))
	p.mu.Lock()
	h := p.held[id]
	if h != nil {
		if h.wanted--; h.wanted == 0 {
			delete(p.held, id)
			close(h.arrived)
		}
	}
	p.mu.Unlock()
	if h == nil {
		pause(r.Context(), work)
		return
	}
	select {
	case <-h.answer:
	case <-r.Context().Done():
	}
}

func (p *partners) label(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.labels++
	p.most = max(p.most, p.labels)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.labels--
	}()
	pause(r.Context(), work)
}

// mostLabels returns the largest number of labels that were in print at once.
func (p *partners) mostLabels() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
