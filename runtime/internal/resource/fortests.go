package resource

import "github.com/lockgen/lockgen/runtime/internal/protocol"

// AtRest reports whether c needs no messages at present. Tests alone call it.
func AtRest(c *Client) bool { return user{c}.Resting(protocol.ProcessChannel(c.Wire.UUID)) > 0 }
