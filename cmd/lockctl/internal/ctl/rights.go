package ctl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/internal/survey"
)

// aKey is the key on which doctor tries rights, unless the command line has another one.
const aKey = "lockgen:doctor"

// rightsOn returns the commands that the user of a Mutex needs, on its key and the names beside it; in a cluster those with sharded channels. A
// test compares them with runtime/ACL.md.
func rightsOn(key string, cluster bool) (all [][]string) {
	waiting, counter, channel, process := braced("lockgen_waiting", key), braced("redisson_lock_token", key), braced("redisson_lock__channel", key), "lockgen_process:doctor"
	all = [][]string{
		{"EVALSHA", strings.Repeat("0", 40), "4", key, waiting, counter, channel}, {"SCRIPT", "LOAD", "return 1"}, {"SCRIPT", "EXISTS", strings.Repeat("0", 40)}, {"PING"}, {"TIME"},
		{"DEL", key}, {"EXISTS", key}, {"HDEL", key, "owner"}, {"HEXISTS", key, "owner"}, {"HGETALL", key}, {"HKEYS", key}, {"HLEN", key},
		{"HSET", key, "owner", "1"}, {"PEXPIRE", key, "1000"}, {"PTTL", key},
		{"LINDEX", waiting, "0"}, {"LLEN", waiting}, {"LPOP", waiting}, {"LPOS", waiting, "owner"}, {"LREM", waiting, "0", "owner"}, {"RPUSH", waiting, "owner"},
		{"GET", counter}, {"SET", counter, "1"},
		{"SUBSCRIBE", process, channel}, {"PUBLISH", process, "1"}, {"PUBLISH", channel, "1"},
	}
	if cluster {
		return append(all, []string{"CLUSTER", "SLOTS"}, []string{"PUBSUB", "SHARDNUMSUB", channel}, []string{"SPUBLISH", channel, "1"},
			[]string{"SSUBSCRIBE", channel}, []string{"SUNSUBSCRIBE", channel})
	}
	return append(all, []string{"CLIENT", "TRACKING", "ON"}, []string{"UNSUBSCRIBE", process}, []string{"PUBSUB", "NUMSUB", channel})
}

// rights asks the server which of these commands a user may call: the one of -for, or the user of this program. A right that the user of -for lacks is
// wrong. One that the user of this program lacks is a note: this program need not lock.
func (e *examination) rights(ctx context.Context) {
	user, state := e.o.user, stateWrong
	if user == "" {
		var err error
		if user, err = e.node.Do(ctx, e.node.B().AclWhoami().Build()).ToString(); err != nil {
			e.add("rights", stateUnknown, err.Error(), ifRefused(err, "permit ACL WHOAMI and ACL DRYRUN to this user"))
			return
		}
		state = stateNote
	}
	key, of := aKey, "a Mutex"
	if len(e.o.args) > 0 {
		key = survey.KeyOf(e.o.args[0])
		of = "a Mutex with the key " + quoted(key)
	}
	commands := rightsOn(key, e.o.rc.Mode() == rueidis.ClientModeCluster)
	tries := make(rueidis.Commands, len(commands))
	for i, command := range commands {
		tries[i] = e.node.B().Arbitrary("ACL", "DRYRUN", user).Args(command...).Build()
	}
	var lacks lacking
	for i, reply := range e.node.DoMulti(ctx, tries...) { // one round trip: a server may be far away
		said, err := reply.ToString()
		if unknownUser(err) {
			e.add("rights", state, "this server does not know the user "+user, "create the user on each server: replicas and servers of a cluster do not tell each other of users")
			return
		}
		if err != nil {
			e.add("rights", stateUnknown, "the user is "+user+"; ACL DRYRUN: "+err.Error(), "")
			return
		}
		if said != "OK" {
			lacks.add(commands[i], said)
		}
	}
	e.say("rights", lacks.nothing(), state, fmt.Sprintf("the user %s may do what %s needs", user, of),
		fmt.Sprintf("of what %s needs, the user %s may not %s", of, user, lacks.String()), "runtime/ACL.md lists what each kind of lock needs, and what happens without it")
}

// unknownUser reports whether err is the answer of ACL DRYRUN for a user that the server does not have.
func unknownUser(err error) bool {
	said, refused := rueidis.IsRedisErr(err)
	return refused && strings.HasPrefix(strings.TrimPrefix(said.Error(), "ERR "), "User '") && strings.HasSuffix(said.Error(), "' not found")
}

// A lacking is what a user may not do.
type lacking struct{ commands, keys, channels []string }

// refusal is how ACL DRYRUN says what is missing: "This user has no permissions to access the 'order:7' key".
var refusal = regexp.MustCompile(`'(.*)' (command|key|channel)`)

// add adds what the server said of a command.
func (l *lacking) add(command []string, said string) {
	name, to := strings.ToLower(command[0]), &l.commands
	if m := refusal.FindStringSubmatch(said); m != nil {
		name, to = m[1], map[string]*[]string{"command": &l.commands, "key": &l.keys, "channel": &l.channels}[m[2]]
	}
	if !slices.Contains(*to, name) {
		*to = append(*to, name)
	}
}

func (l *lacking) nothing() bool { return len(l.commands)+len(l.keys)+len(l.channels) == 0 }

func (l *lacking) String() string {
	var all []string
	for _, x := range []struct {
		verb  string
		names []string
	}{{"call ", l.commands}, {"use the key ", l.keys}, {"use the channel ", l.channels}} {
		if len(x.names) > 0 {
			all = append(all, x.verb+strings.Join(x.names, ", "))
		}
	}
	return strings.Join(all, "; ")
}
