package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// An Election is the record of the leader, beside the mutex of a key.
type Election struct {
	c            Client
	key          string
	confirmEvery time.Duration // a test has a shorter one
}

// New returns the election with the mutex of a key.
func New(c Client, key string) *Election { return &Election{c, key, confirmEvery} }

// A Leader is the leader as Redis knows it.
type Leader struct {
	Value  string
	Token  int64 // 0 without a leader
	Client string
}

// maxValue is the length of the longest value of a leader, in bytes.
const maxValue = 64 << 10

// CheckValue returns why a leader cannot have the value, or nil.
func CheckValue(value string) error {
	if len(value) > maxValue {
		return fmt.Errorf("%w: a value of %d bytes is longer than 64 KB", failure.ErrBadOption, len(value))
	}
	return nil
}

// A Candidate campaigns and leads. Its methods return the errors that the caller of the exported API gets.
type Candidate interface {
	// Campaign returns when the candidate leads.
	Campaign() error
	// Lead does the work of the leader.
	Lead() error
	// Resign ends the leadership, and returns why it had ended before.
	Resign() error
}

// Lead has the candidate campaign and lead until its work ends while it leads, or a campaign fails with an error that the next one would
// get too.
func (e *Election) Lead(ctx context.Context, candidate Candidate) error {
	for {
		err := candidate.Campaign()
		switch {
		case err == nil:
			err, again := term(ctx, candidate)
			if !again {
				return err
			}
			e.c.Logger.WarnContext(ctx, "lockgen: the leadership was lost; campaigning again", "kind", kindElection, "key", e.key, "error", err)
		case ctx != nil && ctx.Err() != nil, !errors.Is(err, failure.ErrUnavailable) && !errors.Is(err, failure.ErrLost):
			return err
		default:
			e.c.Logger.WarnContext(ctx, "lockgen: a campaign failed; campaigning again", "kind", kindElection, "key", e.key, "error", err)
			e.c.Pause(e.c.Backoff(1))
		}
	}
}

// term has the candidate lead and resign, also if its work panics. again reports that the leadership was lost while ctx goes on.
func term(ctx context.Context, candidate Candidate) (err error, again bool) { //nolint:staticcheck,revive // term returns an error with its own key
	defer func() {
		resigned := candidate.Resign()
		again = errors.Is(resigned, failure.ErrLost) && ctx.Err() == nil
		switch {
		case again:
			err = resigned
		case errors.Is(resigned, failure.ErrReleased): // by its work
		default:
			err = failure.AfterWork(ctx, err, resigned)
		}
	}()
	return candidate.Lead(), false
}

// Leader asks Redis for the leader.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, _, err := e.look(ctx)
	return leader, err
}

// look is Leader, and returns how long the mutex stays held without a renewal; 0 if it is free.
func (e *Election) look(ctx context.Context) (leader Leader, left time.Duration, err error) {
	if e.c.Net.Closing() {
		return leader, 0, failure.ErrClosed
	}
	type reply struct {
		term protocol.Term
		left time.Duration
	}
	got, err := transport.Bounded(ctx, e.c.Net, func() (reply, error) {
		said, err := e.c.Net.Run(e.c.Wire.Leader(e.key)).Any()
		if err != nil {
			return reply{}, err
		}
		ttl, term, err := protocol.ReadLeading(said)
		return reply{term, max(0, ttl)}, err
	})
	if err != nil {
		if ctx.Err() == nil && transport.Passing(err) {
			err = transport.Unavailable("", err)
		}
		return leader, 0, transport.Refused(err)
	}
	client, _ := protocol.ClientOf(got.term.Owner)
	return Leader{Value: got.term.Value, Token: got.term.Token, Client: client}, got.left, nil
}
