// Package scripts holds the Lua that lockgen runs inside Redis, one file per step.
//
// What several steps share stands in handover.lua. Every other file begins with a header that names
// its KEYS, its ARGV, its replies and the
// reason why it may be run twice: a reply can get lost on its way, and then the only
// way to learn what happened is to send the script again. No script counts
// anything; each sets a state that is the same after the second run as after the first.
//
// What the scripts leave in Redis is Redisson's layout, so that Java programs see
// their own locks: a hash under the name of the lock with the one field
// "<uuid>:<number>", the owner, and messages of decimal integers on Redisson's channels.
package scripts

import (
	"crypto/sha1" //nolint:gosec // names a script in Redis' cache, secures nothing
	_ "embed"
	"encoding/hex"
)

// A Script is one step that Redis executes as a whole.
type Script struct {
	Name   string // the name of its file, without .lua
	Step   string // what the file says
	Source string // what Redis runs: the step, behind the functions that it shares with others
	SHA1   string // what EVALSHA calls it, lower-case hex
}

//go:embed handover.lua
var handover string

//go:embed acquire.lua
var acquire string

//go:embed release.lua
var release string

//go:embed renew.lua
var renew string

//go:embed force_unlock.lua
var forceUnlock string

//go:embed inspect.lua
var inspect string

// The steps of the reentrant mutex. Each file's header is its documentation.
var (
	Acquire     = script("acquire", acquire, handover)
	Release     = script("release", release, handover)
	Renew       = script("renew", renew, "")
	ForceUnlock = script("force_unlock", forceUnlock, handover)
	Inspect     = script("inspect", inspect, "")
)

// All returns every script, in the order in which they are loaded.
func All() []*Script {
	return []*Script{Acquire, Release, Renew, ForceUnlock, Inspect}
}

func script(name, step, shared string) *Script {
	source := shared + step
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{Name: name, Step: step, Source: source, SHA1: hex.EncodeToString(sum[:])}
}
