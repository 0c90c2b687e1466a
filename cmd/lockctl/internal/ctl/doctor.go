package ctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A Finding is the result of one check.
type Finding struct {
	Server string `json:"server"`
	About  string `json:"about"`
	State  string `json:"state"` // ok, note, wrong, unknown
	Text   string `json:"text"`
	Todo   string `json:"todo,omitempty"`
}

// A Diagnosis is the output of doctor as JSON.
type Diagnosis struct {
	Version  int       `json:"version"`
	Findings []Finding `json:"findings"`
}

const (
	stateOK, stateNote, stateWrong, stateUnknown = "ok", "note", "wrong", "unknown"
)

func doctor(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		d := Diagnosis{Version: JSONVersion, Findings: o.examine(ctx, o.rc.Nodes())}
		orphans, err := o.orphans(ctx)
		if err != nil {
			orphans = Finding{"", "orphans", stateUnknown, err.Error(), ifRefused(err, "permit SCAN and PUBSUB CHANNELS to this user")}
		}
		d.Findings = append(d.Findings, orphans)
		code := exitOK
		if slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.State == stateWrong }) {
			code = exitFound
		}
		if o.json {
			o.print(d)
			return code, nil
		}
		last := "-"
		for _, f := range d.Findings {
			if f.Server != last {
				fmt.Fprintf(o.Stdout, "%s\n", clean(cmpText(f.Server, "all servers")))
				last = f.Server
			}
			fmt.Fprintf(o.Stdout, "  %-8s %-12s %s\n", f.State, f.About, clean(f.Text))
			if f.Todo != "" {
				fmt.Fprintf(o.Stdout, "  %-8s %-12s -> %s\n", "", "", clean(f.Todo))
			}
		}
		return code, nil
	})
}

// parseInfo reads the text of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// examine examines the servers, all at once: one that is far or does not answer takes no time from the others. The findings are in the order of
// the addresses.
func (o *options) examine(ctx context.Context, nodes map[string]rueidis.Client) []Finding {
	addrs := sortedKeys(nodes)
	found := make([][]Finding, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			e := examination{o: o, node: nodes[addr], addr: addr, config: map[string]string{}}
			if err := e.run(ctx); err != nil {
				e.found = []Finding{{addr, "server", stateWrong, err.Error(), "locks on it fail until it answers"}}
			}
			found[i] = e.found
		})
	}
	all.Wait()
	return slices.Concat(found...)
}

// ifRefused returns what to do if err is the answer of a server: one that does not answer, or is busy or loads its data, has not refused anything.
func ifRefused(err error, todo string) string {
	said, refused := rueidis.IsRedisErr(err)
	if !refused || strings.HasPrefix(said.Error(), "BUSY ") || strings.HasPrefix(said.Error(), "LOADING ") {
		return ""
	}
	return todo
}

// An examination examines one server.
type examination struct {
	o      *options
	node   rueidis.Client
	addr   string
	info   map[string]string
	config map[string]string
	unread map[string]error // of the parameters that are not in config
	found  []Finding
}

func (e *examination) add(about, state, text, todo string) {
	e.found = append(e.found, Finding{e.addr, about, state, text, todo})
}

// say adds a finding: the text for a right state, or the text for a wrong one with the remedy.
func (e *examination) say(about string, ok bool, otherwise, right, wrong, todo string) {
	if ok {
		e.add(about, stateOK, right, "")
	} else {
		e.add(about, otherwise, wrong, todo)
	}
}

func (e *examination) run(ctx context.Context) error {
	began := time.Now()
	if err := e.node.Do(ctx, e.node.B().Ping().Build()).Error(); err != nil {
		return err
	}
	var latencies []time.Duration
	for range 5 {
		at := time.Now()
		if err := e.node.Do(ctx, e.node.B().Ping().Build()).Error(); err != nil {
			return err
		}
		latencies = append(latencies, time.Since(at))
	}
	slices.Sort(latencies)
	text, err := e.node.Do(ctx, e.node.B().Info().Build()).ToString()
	if err != nil {
		e.add("INFO", stateUnknown, err.Error(), ifRefused(err, "permit INFO to this user"))
		if _, refused := rueidis.IsRedisErr(err); !refused {
			return nil
		}
	}
	e.info = parseInfo(text) // which is empty if it is refused
	e.configure(ctx)
	e.say("latency", latencies[2] < 50*time.Millisecond, stateNote,
		"PING takes "+latencies[2].Round(10*time.Microsecond).String(),
		"PING takes "+latencies[2].Round(time.Millisecond).String()+", and a lock two of those", "run the programs nearer to the server")
	e.about(ctx)
	e.cluster(ctx)
	e.pubsub()
	e.clock(ctx, began)
	e.rights(ctx)
	return nil
}

// configure reads the configuration.
func (e *examination) configure(ctx context.Context) {
	names := []string{"client-output-buffer-limit", "timeout", "appendfsync", "min-replicas-to-write"}
	var asks rueidis.Commands
	for _, name := range names {
		asks = append(asks, e.node.B().ConfigGet().Parameter(name).Build())
	}
	e.unread = map[string]error{}
	for i, reply := range e.node.DoMulti(ctx, asks...) {
		config, err := reply.AsStrMap()
		maps.Copy(e.config, config)
		if _, said := e.config[names[i]]; !said {
			e.unread[names[i]] = err
		}
	}
}

// unsure adds that a finding depends on a parameter of the configuration that could not be read.
func (e *examination) unsure(about, parameter, but string) {
	e.add(about, stateUnknown, parameter+" cannot be read, and "+but, ifRefused(e.unread[parameter], "permit CONFIG GET to this user"))
}

// about examines what INFO says. A server that does not have a field, or hides it, is not taken for one that has another value.
func (e *examination) about(ctx context.Context) {
	for _, part := range []struct {
		name, field string
		examine     func()
	}{
		{"version", "redis_version", e.version},
		{"eviction", "maxmemory", e.memory},
		{"persistence", "aof_enabled", e.persistence},
		{"replication", "role", func() { e.replicas(ctx) }},
	} {
		if _, said := e.info[part.field]; said {
			part.examine()
		} else if len(e.info) > 0 { // otherwise INFO is refused
			e.add(part.name, stateUnknown, "INFO has no "+part.field, "")
		}
	}
}

func (e *examination) version() {
	name, version := "Redis", e.info["redis_version"]
	if v := e.info["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	major, minor, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	e.say("version", atoi(major) > 6 || atoi(major) == 6 && atoi(minor) >= 2, stateWrong, name+" "+version,
		name+" "+version+" is older than 6.2, the oldest that is tested", "update the server")
	e.say("tracking", atoi(major) >= 6, stateNote, "the server tells of lost keys at once",
		"the server tells of no lost keys: a loss is noticed at the next renewal", "update to 6.0 or later")
}

func (e *examination) memory() {
	policy, most, used := e.info["maxmemory_policy"], e.info["maxmemory"], e.info["used_memory"]
	bounded := most != "" && most != "0"
	switch {
	case !bounded:
		e.add("eviction", stateOK, "there is no bound of memory, so no lock is evicted", "")
	case policy == "noeviction":
		e.add("eviction", stateOK, "noeviction: a server without memory refuses new locks and keeps those that are held", "")
	default:
		e.add("eviction", stateWrong, policy+" with a bound of memory: a lock may be evicted while it is held, and granted again", "set maxmemory-policy noeviction")
	}
	if bounded {
		m, _ := strconv.ParseFloat(most, 64)
		u, _ := strconv.ParseFloat(used, 64)
		share := fmt.Sprintf("%.0f%% of maxmemory is used", 100*u/max(m, 1))
		e.say("memory", u < 0.9*m, stateWrong, share, share+": soon no lock is granted", "give it more memory, or delete keys")
	}
}

func (e *examination) persistence() {
	if e.info["aof_enabled"] != "1" {
		e.add("persistence", stateNote, "no append-only file: a server that restarts has forgotten all locks since its last snapshot, and grants them again",
			"set appendonly yes and appendfsync always, or use fencing tokens")
		return
	}
	sync, read := e.config["appendfsync"]
	if !read {
		e.unsure("persistence", "appendfsync", "the server has an append-only file")
		return
	}
	e.say("persistence", sync == "always", stateNote, "append-only file "+sync,
		"append-only file, appendfsync "+sync+": a server whose machine crashes has forgotten the locks of the last second or more, and grants them again",
		"set appendfsync always, or use fencing tokens")
}

func (e *examination) replicas(ctx context.Context) {
	if master, replica := masterOf(e.info); replica && e.o.rc.Mode() == rueidis.ClientModeStandalone && !ofCluster(e.info) {
		e.add("replication", stateWrong, "it is a replica, and the only server of the URL: it grants no locks", "use the URL of its master, "+master+", or of sentinels")
		return
	}
	if e.info["role"] != "master" {
		e.add("replication", stateOK, "it is a replica; its master link is "+e.info["master_link_status"], "")
		return
	}
	n := atoi(e.info["connected_slaves"])
	if e.tooFewReplicas() {
		return
	}
	if n == 0 {
		e.add("replication", stateNote, "no replica: locks fail while the server is away", "add replicas and sentinels, or a RedLock of several servers")
		return
	}
	// Without something new to confirm, a replica that has just stopped would have confirmed all. No one listens to this. From Redis 7.2 on,
	// WAIT waits only for what its own connection wrote: rueidis sends both over one.
	news := e.node.B().Publish().Channel("lockgen_process:doctor").Message("").Build()
	at := time.Now()
	replies := e.node.DoMulti(ctx, news, e.node.B().Wait().Numreplicas(int64(n)).Timeout(500).Build())
	got, err := replies[1].AsInt64() // where the right to publish is missing, that is found below
	if err != nil {
		e.add("replication", stateUnknown, "WAIT: "+err.Error(), ifRefused(err, "Options.Replicas needs the right to WAIT"))
		return
	}
	got = min(got, int64(n-e.silentReplicas())) // in a cluster a message is nothing that replicas confirm
	e.say("replication", int(got) == n, stateWrong,
		fmt.Sprintf("%s, all confirmed within %s", count(n, "replica", "replicas"), short(time.Since(at))),
		fmt.Sprintf("%d of %d replicas confirm within 500ms; locks with Options.Replicas may fail, and a failover may lose locks", got, n),
		"look at the replicas that lag")
}

// tooFewReplicas reports whether the server grants no locks because of min-replicas-to-write, and adds a finding if that is so or is not known. INFO has
// the number of good replicas only while the server looks at it: not if min-replicas-to-write or min-replicas-max-lag is 0.
func (e *examination) tooFewReplicas() bool {
	said, looks := e.info["min_slaves_good_slaves"]
	least, read := e.config["min-replicas-to-write"]
	good := atoi(said)
	goods := count(good, "replica is good", "replicas are good")
	switch {
	case !looks:
	case read && good < atoi(least):
		e.add("replication", stateWrong, "min-replicas-to-write is "+least+", and "+goods+": the server grants no locks", "look at the replicas")
		return true
	case !read && good == 0:
		e.add("replication", stateWrong, "min-replicas-to-write is not 0, and "+goods+": the server grants no locks", "look at the replicas")
		return true
	case !read:
		e.unsure("replication", "min-replicas-to-write", goods)
	}
	return false
}

// cluster looks whether the cluster serves keys, as this server of it sees that.
func (e *examination) cluster(ctx context.Context) {
	if e.o.rc.Mode() == rueidis.ClientModeStandalone && ofCluster(e.info) {
		e.add("cluster", stateWrong, "it is one server of a cluster, and the only server of the URL: it has the locks of its own slots alone", "say cluster=true in the URL")
	}
	if e.o.rc.Mode() != rueidis.ClientModeCluster {
		return
	}
	text, err := e.node.Do(ctx, e.node.B().ClusterInfo().Build()).ToString()
	if err != nil {
		e.add("cluster", stateUnknown, "CLUSTER INFO: "+err.Error(), ifRefused(err, "permit CLUSTER INFO to this user"))
		return
	}
	info := parseInfo(strings.TrimPrefix(text, "txt:")) // rueidis leaves the format of the text before it
	const slots, todo = 16384, "look at the slots without a server: redis-cli --cluster check"
	state, missing := info["cluster_state"], slots-atoi(info["cluster_slots_ok"])
	if state != "ok" {
		e.add("cluster", stateWrong, "cluster_state is "+state+": the server grants no locks", todo)
		return
	}
	e.say("cluster", missing == 0, stateWrong, "all slots have a server", count(missing, "slot has", "slots have")+" no server: locks with such keys fail", todo)
}

// silentReplicas returns how many replicas have confirmed nothing for four seconds or longer. They do so each second.
func (e *examination) silentReplicas() (n int) {
	for name, value := range e.info {
		_, lag, ok := strings.Cut(value, ",lag=")
		lag, _, _ = strings.Cut(lag, ",")
		if ok && strings.HasPrefix(name, "slave") && atoi(lag) >= 4 {
			n++
		}
	}
	return n
}

func (e *examination) pubsub() {
	limits := e.config["client-output-buffer-limit"]
	_, of, ok := strings.Cut(limits, "pubsub ")
	if !ok {
		e.add("pub/sub", stateUnknown, "the output buffer limits cannot be read", "permit CONFIG GET to this user")
	} else {
		words := strings.Fields(of)
		hard, _ := strconv.ParseInt(words[0], 10, 64)
		e.say("pub/sub", hard == 0 || hard >= 1<<20, stateWrong, "output buffer limit of subscribers: "+strings.Join(words[:min(3, len(words))], " "),
			"subscribers are disconnected at "+words[0]+" bytes: those that wait ask by timers then", "set client-output-buffer-limit pubsub 32mb 8mb 60")
	}
	if idle, ok := e.config["timeout"]; ok {
		e.say("timeouts", idle == "0", stateNote, "idle connections stay open",
			"connections that are idle for "+idle+"s are closed: a lock after that takes one more connection", "set timeout 0 and tcp-keepalive 60")
	}
}

func (e *examination) clock(ctx context.Context, _ time.Time) {
	sent := time.Now()
	words, err := e.node.Do(ctx, e.node.B().Time().Build()).AsStrSlice()
	took := time.Since(sent)
	if err != nil || len(words) < 2 {
		e.add("clock", stateUnknown, fmt.Sprint("TIME: ", err), ifRefused(err, "permit TIME to this user"))
		return
	}
	seconds, _ := strconv.ParseInt(words[0], 10, 64)
	micros, _ := strconv.ParseInt(words[1], 10, 64)
	off := time.Unix(seconds, micros*1000).Sub(sent.Add(took / 2))
	e.say("clock", off.Abs() < time.Second, stateNote, "within "+max(off.Abs(), took).Round(10*time.Microsecond).String()+" of this machine",
		"it differs by "+off.Round(time.Millisecond).String()+" from this machine; fair locks reckon with the clocks of the machines", "run an NTP daemon on both")
	e.script(ctx)
}

func (e *examination) script(ctx context.Context) {
	err := e.node.Do(ctx, e.node.B().Eval().Script("return 1").Numkeys(0).Build()).Error()
	if err == nil {
		e.add("Lua", stateOK, "scripts run", "")
		return
	}
	e.add("Lua", stateNote, "EVAL: "+err.Error(), ifRefused(err, "services need EVALSHA and SCRIPT LOAD; this program needs EVAL for force"))
}
