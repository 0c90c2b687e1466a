package fleet

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// An asker asks other processes what they hold and wait for, and answers them.
type asker struct {
	questions

	cfg     *Config
	asks    pace      // requests of other processes
	unheard sync.Once // logs that they cannot be answered
}

// Listeners returns the ids of the listening processes, each once, in order.
func (a *asker) Listeners() ([]string, error) {
	ids, err := a.cfg.Net.Channels(protocol.ProcessChannel(strings.ReplaceAll("00000000-0000-0000-0000-000000000000", "0", "[0-9a-f]")))
	for i, channel := range ids {
		ids[i] = strings.TrimPrefix(channel, protocol.ProcessChannel(""))
	}
	return ids, err
}

// Ask asks processes, of which this one may be one, for their holds and waiting calls, of one key or of all for "". It returns when all
// have answered, or when ctx ends. It reports false if the process closes, or does not hear its channel before ctx ends.
func (a *asker) Ask(ctx context.Context, ids []string, key string) (f observe.Fleet, asked bool) {
	return a.ask(ctx, ids, askWord, key)
}

// ask sends a request that begins with word to processes, and waits for the answers.
func (a *asker) ask(ctx context.Context, ids []string, word, key string) (f observe.Fleet, asked bool) {
	if !a.hears(ctx) {
		return f, false
	}
	q := a.begin(ids)
	defer a.end(q)
	others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == a.cfg.UUID })
	a.cfg.Spawn(func() { a.send(q, others, word, key) })
	if len(others) < len(ids) {
		a.heard(part{Snapshot: a.cfg.Look(key, 0), ID: q.id, Parts: 1}, 0)
	}
	for {
		select {
		case <-q.done:
			return q.fleet(), true
		case <-ctx.Done():
			return q.fleet(), true
		case <-a.cfg.Closing:
			return f, false
		case <-q.again:
			a.askAgain(ctx, q, word, key)
		}
	}
}

// askAgain asks the processes that refused again, once they answer again.
func (a *asker) askAgain(ctx context.Context, q *question, word, key string) {
	pause := time.NewTimer(pacePeriod)
	defer pause.Stop()
	select {
	case <-pause.C:
		a.cfg.Spawn(func() { a.send(q, q.refusers(), word, key) })
	case <-ctx.Done():
	case <-a.cfg.Closing:
	}
}

// hears waits until the process hears its channel.
func (a *asker) hears(ctx context.Context) bool {
	a.cfg.Hear()
	return a.cfg.Net.Hears(ctx, a.cfg.channel(), a.cfg.Closing)
}

// send sends a request that begins with word to each of the processes ids.
func (a *asker) send(q *question, ids []string, word, key string) {
	request := word + q.id + " " + a.cfg.channel()
	if key != "" {
		request += " " + key
	}
	for some := range slices.Chunk(ids, 100) {
		channels, texts := make([]string, len(some)), make([]string, len(some))
		for i, id := range some {
			channels[i], texts[i] = protocol.ProcessChannel(id), request
		}
		unheard, _ := a.cfg.Net.Publish(channels, texts) // those that are not reached do not answer
		for _, i := range unheard {
			q.gone(some[i]) // it has ended meanwhile
		}
	}
}

// asked handles a request for the holds of the process. It does not block.
func (a *asker) asked(request string) {
	id, channel, key, ok := readRequest(request)
	if !ok {
		return
	}
	switch n := a.asks.take(monotonic.Now()); {
	case n <= mostAnswers:
		a.cfg.Spawn(func() { a.say(channel, partsOf(a.cfg.Look(key, mostReported), id)) })
	case n <= 2*mostAnswers:
		a.cfg.Spawn(func() {
			s := observe.Snapshot{Version: observe.SnapshotVersion, At: time.Now(), Process: a.cfg.Process()}
			a.say(channel, []string{encoded(part{Snapshot: s, ID: id, Parts: 1, Refused: refusedText})})
		})
	}
}

// say publishes the parts of an answer.
func (a *asker) say(channel string, parts []string) {
	for _, text := range parts {
		_, err := a.cfg.Net.Publish([]string{channel}, []string{text})
		if why := a.cfg.Net.Refusal(err); why != nil {
			a.unheard.Do(func() {
				a.cfg.Logger.Warn("lockgen: a process that asked what this one holds cannot be answered", "channel", channel, "error", why)
			})
		}
		if err != nil {
			return // the asking process sees that a part is missing
		}
	}
}
