package protocol

import "strings"

// Texts are the keys and the arguments of one command for several requests, which append theirs one after the other. The texts that are
// made for them are parts of few strings: each string of its own would cost one allocation.
type Texts struct {
	Keys, Args []string

	behind []string            // keys that stand behind those of all requests
	left   int                 // how many requests append theirs yet, if that is known: for as many of them there is room
	seen   map[string]struct{} // of share; empty between its calls
	made   strings.Builder
}

const (
	mostRoom = 64 // for how many requests there is room in one string at most
	longer   = 4  // by how many bytes each may be longer than the first
)

func (x *Texts) add(keys ...string) { x.Keys = append(x.Keys, keys...) }

// say adds the arguments of a request, after its keys.
func (x *Texts) say(args ...string) {
	x.Args = append(x.Args, args...)
	x.left--
}

// room returns where n bytes can be written without another allocation. Nothing writes to the strings that are parts of it.
func (x *Texts) room(n int) *strings.Builder {
	if x.made.Cap()-x.made.Len() < n {
		x.made.Reset() // the strings so far keep what they are parts of
		many := min(max(x.left, 1), mostRoom)
		x.made.Grow(n*many + longer*(many-1))
	}
	return &x.made
}

// text returns b as a string.
func (x *Texts) text(b []byte) string {
	made := x.room(len(b))
	start := made.Len()
	made.Write(b)
	return made.String()[start:]
}

// share has the last argument of n requests, each of which has two behind the first ones of the command, stand once behind all, if it is the
// same for all, and if all keys differ.
func (x *Texts) share(n, first int) {
	args := x.Args[first:]
	last := args[len(args)-1]
	for i := range n {
		if args[2*i+1] != last {
			return
		}
	}
	if !x.differ() {
		return
	}
	for i := range n {
		args[i] = args[2*i]
	}
	args[n] = last
	clear(args[n+1:])
	x.Args = x.Args[:first+n+1]
}

// differ reports whether no key is there twice.
func (x *Texts) differ() bool {
	if x.seen == nil {
		x.seen = make(map[string]struct{}, len(x.Keys))
	}
	for _, key := range x.Keys {
		x.seen[key] = struct{}{}
	}
	differ := len(x.seen) == len(x.Keys)
	clear(x.seen)
	return differ
}

// Begin makes x empty but for the first arguments of a command for n requests.
func (x *Texts) Begin(n int, common []string) {
	x.Clear()
	x.Args, x.left = append(x.Args, common...), n
}

// Clear removes all keys and arguments. Their strings stay as they are, and the room for more of them is used again.
func (x *Texts) Clear() {
	clear(x.Keys)
	clear(x.Args)
	clear(x.behind)
	x.Keys, x.Args, x.behind = x.Keys[:0], x.Args[:0], x.behind[:0]
	x.made.Reset()
}
