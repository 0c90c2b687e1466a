// Package fleet makes a process one of those that share servers: it says who it is, asks the others what they hold and wait for,
// answers them, and finds deadlocks with them.
//
// A process has a channel, on which the others ask it. It answers on the channel of the process that asks. Nothing is sent for locks
// that are held for a short time: presence.go describes the process in Redis once it has held or waited for long, ask.go asks all
// processes for a person, holders.go asks the holders of a key for a call that waits, and deadlocks.go looks for circles of calls
// that wait for each other.
//
// The package knows the locks of its process by [Locks], and the servers by [Net].
package fleet

import "strings"

// A Member is a process as one of those that share servers.
type Member struct {
	Config
	presence
	asker
	holders
	deadlocks
}

// New returns the Member of a process. It sends nothing.
func New(cfg Config) *Member {
	m := &Member{Config: cfg}
	m.presence.cfg, m.asker.cfg = &m.Config, &m.Config
	m.holders.cfg, m.holders.asker = &m.Config, &m.asker
	m.deadlocks.init(&m.Config)
	return m
}

// Receive handles a message on the channel of the process, and reports whether it is one of another process. It does not block.
func (m *Member) Receive(text string) bool {
	if request, ok := strings.CutPrefix(text, askWord); ok {
		m.asker.asked(request)
		return true
	}
	if request, ok := strings.CutPrefix(text, traceWord); ok {
		m.holders.asked(request)
		return true
	}
	if text, ok := strings.CutPrefix(text, deadlockWord); ok {
		m.runner.Receive(text)
		return true
	}
	if strings.HasPrefix(text, "{") {
		m.answered(text)
		return true
	}
	return false
}
