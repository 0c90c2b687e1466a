package transport

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A mute connection is found out by time, a second or more later. Until then others may wait for a key without a
// holder: it was granted, or is being released, by a request whose answer does not come. A command that may be sent
// twice is sent over another connection long before.

// MostBeside is how many connections are tried at once.
const MostBeside = 3

// RunAside sends a command over the tracked connection, if there is one and it answers: the shared one has a request without
// an answer, and may hold up what is sent behind that for as long. The command is sent once: a caller that sends it again has
// to know that it may have been done.
func (t *Transport) RunAside(cmd protocol.Command) Reply {
	if reply, ok := t.tracker.beside(cmd); ok {
		return Reply{reply}
	}
	return t.Run(cmd)
}

// RunBeside sends a command, which may be run twice, over a connection that is not the shared one: the tracked connection,
// unless it has a request without an answer for too long, else the second one.
func (t *Transport) RunBeside(cmd protocol.Command) Reply {
	if reply, ok := t.tracker.beside(cmd); ok {
		return Reply{reply}
	}
	if reply, ok := t.second.run(cmd); ok {
		return Reply{reply}
	}
	if own := t.direct.take(); own != nil {
		return Reply{t.direct.run(context.Background(), own, cmd)}
	}
	return Reply{t.runShared(context.Background(), cmd)}
}
