package main

import "time"

// mutex are the constants of Mutex.tla.
var mutex = set{
	"Procs": "{p1, p2}", "Numbers": "{1}", "Lease": "2", "Claim": "1", "MaxNet": "1", "Faults": "0", "Kinds": "{}",
	"Lossy": "FALSE", "Prompt": "FALSE", "Contended": "FALSE", "Java": "FALSE", "None": "None",
}

// red are the constants of RedLock.tla.
var red = set{
	"Procs": "{p1, p2}", "Servers": "{s1, s2, s3}", "Lease": "1", "Fenced": "FALSE", "Renewing": "FALSE", "Again": "FALSE",
	"Restarts": "0", "Away": "FALSE", "MaxToken": "2", "None": "None",
}

// defaults are the constants and the invariants of a module.
var defaults = map[string]struct {
	consts     map[string]string
	invariants string
	behaviour  string // Spec if it is empty
}{
	"Mutex":     {mutex, "InvExclusion InvTruth InvTokens InvClaim", ""},
	"MutexLive": {mutex, "", ""},
	"RedLock":   {red, "InvExclusion InvTruth InvTokens", ""},
	"RedTokens": {red, "InvExclusion InvTokens", "Timeless"},
	"MultiLock": {map[string]string{
		"Procs": "{p1, p2}", "Members": "{1, 2}", "Some": "{}", "Lease": "1", "Losses": "1", "None": "None",
	}, "InvAll InvExclusion InvNone InvOrder", ""},
	"RWMutex": {map[string]string{
		"Procs": "{r1, r2, w1, w2}", "Writers": "{w1, w2}", "Deaths": "1", "Known": "FALSE", "Java": "FALSE", "None": "None",
	}, "InvExclusion InvNoTie InvCalled", ""},
}

type (
	set  = map[string]string
	edit = [][2]string
)

// runs returns all runs: those that hold, the deep bounds, and the mutants.
func runs() []run {
	return append(append(holds(), deep()...), mutants()...)
}

// holds are the short bounds, all of whose states are visited.
func holds() []run {
	return []run{
		{module: "Mutex", name: "two requests under way at a time", consts: set{"MaxNet": "2"}},
		{module: "Mutex", name: "any message is lost; a new caller stands in line at once", consts: set{"Lossy": "TRUE", "Contended": "TRUE"}},
		{module: "Mutex", name: "Redisson races, any message is lost", consts: set{"Java": "TRUE", "Lossy": "TRUE"}},
		{module: "Mutex", name: "a server that forgets all, a message that is lost", consts: set{"Faults": "1", "Kinds": `{"flush", "lose"}`}},
		{module: "Mutex", name: "failover, a process that dies, a request that is done twice", consts: set{"Faults": "1", "Kinds": `{"failover", "crash", "repeat"}`}},
		{module: "Mutex", name: "the clock of the server is set back", consts: set{"Faults": "1", "Kinds": `{"back"}`}, invariants: "=InvExclusion InvTruth InvTokens"},
		{module: "Mutex", name: "withdrawal: what is given up leaves nothing behind", consts: set{"Prompt": "TRUE", "MaxNet": "2"}, invariants: "InvWithdrawn"},
		{module: "Mutex", name: "beside Go: all messages may be lost", plain: true, consts: set{"Lossy": "TRUE", "Contended": "TRUE"}},
		{module: "Mutex", name: "beside Go: faults of the server", plain: true, invariants: "=InvTokens", consts: set{"Lease": "1", "Faults": "1", "Kinds": `{"flush", "failover", "ahead", "back"}`}},
		{module: "Mutex", name: "beside Go: faults beside it, a racer", plain: true, invariants: "=InvTokens", consts: set{"Lease": "1", "Faults": "1", "Kinds": `{"crash", "repeat", "lose"}`, "Java": "TRUE", "Prompt": "TRUE"}},
		{module: "MutexLive", name: "liveness: a waiter is served, or gives up", temporal: "Served"},
		{module: "RedLock", name: "majorities, late parts"},
		{module: "RedLock", name: "beside Go: one process, all actions", plain: true, invariants: "=InvTokens", consts: set{"Procs": "{p1}", "Fenced": "TRUE", "Renewing": "TRUE", "Again": "TRUE", "Restarts": "1", "Away": "TRUE", "MaxToken": "1"}},
		{module: "RedLock", name: "beside Go: two processes, two servers", plain: true, invariants: "=InvTokens", consts: set{"Servers": "{s1, s2}", "Renewing": "TRUE"}},
		{module: "RedTokens", name: "fencing tokens, while no time passes", consts: set{"Fenced": "TRUE"}},
		{module: "MultiLock", name: "all or none, a member is deleted"},
		{module: "MultiLock", name: "three members, two of which the other wants", plain: true, consts: set{"Members": "{1, 2, 3}", "Some": "{p2}"}},
		{module: "MultiLock", name: "beside Go: three processes, a lease of two units", plain: true, consts: set{"Procs": "{p1, p2, p3}", "Some": "{p3}", "Lease": "2", "Losses": "0"}},
		{module: "MultiLock", name: "liveness: a waiter is served, or gives up", temporal: "Served", consts: set{"Losses": "0"}},

		{module: "RWMutex", name: "the rule of whose turn it is, one process dies"},
		{module: "RWMutex", name: "the server knows who is dead; Redisson races", consts: set{"Known": "TRUE", "Java": "TRUE", "Deaths": "2"}},
		{module: "RWMutex", name: "liveness: a free lock is granted", temporal: "Granted", consts: set{"Procs": "{r1, w1, w2}"}},
		{module: "RWMutex", name: "liveness: a waiter is served, or gives up", temporal: "Served", consts: set{"Procs": "{r1, w1, w2}"}},

		{module: "trust", name: "two processes, two messages, lease 2, hand-over 1", spin: "-DP=2 -DN=2 -DL=2 -DC=1 -DF=0"},
		{module: "trust", name: "three processes, three messages, lease 3, hand-over 2, a fault", spin: "-DP=3 -DN=3 -DL=3 -DC=2 -DF=1"},
	}
}

// A time limit also limits the visited states: the verdict says so.
func deep() []run {
	return []run{
		{module: "Mutex", name: "two requests under way, any message is lost, two numbers", deep: true, consts: set{"MaxNet": "2", "Lossy": "TRUE", "Numbers": "{1, 2}", "Contended": "TRUE"}, limit: time.Hour},
		{module: "Mutex", name: "three processes", deep: true, consts: set{"Procs": "{p1, p2, p3}"}, limit: time.Hour},
		{module: "RedLock", name: "renewal, servers without a part are asked again", deep: true, consts: set{"Renewing": "TRUE", "Again": "TRUE"}, limit: time.Hour},
		{module: "RedLock", name: "a server comes back empty and stays away for a lease", deep: true, consts: set{"Restarts": "1", "Away": "TRUE"}, invariants: "=InvExclusion", limit: time.Hour},
		{module: "RedLock", name: "fencing tokens", deep: true, consts: set{"Fenced": "TRUE"}, limit: time.Hour},
		{module: "MultiLock", name: "three processes, three members", deep: true, consts: set{"Procs": "{p1, p2, p3}", "Members": "{1, 2, 3}", "Some": "{p3}"}, limit: time.Hour},
		{module: "trust", name: "three processes, four messages, two faults", deep: true, spin: "-DP=3 -DN=4 -DL=3 -DC=2 -DF=2", limit: time.Hour},
		{module: "trust", name: "four processes, three messages, a fault", deep: true, spin: "-DP=4 -DN=3 -DL=3 -DC=2 -DF=1", limit: time.Hour},
	}
}

// mutants are the protocol with one mistake each. A check that refutes no mutant proves nothing. The first two are no
// mistakes of the protocol, but its limits.
func mutants() []run {
	flush := set{"Faults": "1", "Kinds": `{"flush"}`}
	withdrawn := set{"Prompt": "TRUE", "Lossy": "TRUE"}
	return []run{
		{module: "Mutex", name: "limit: the server's clock is set ahead before a hand-over", refutes: "InvTruth", consts: set{"Faults": "1", "Kinds": `{"ahead"}`}},
		{module: "RedLock", name: "limit: one server comes back empty at once", refutes: "InvExclusion", consts: set{"Restarts": "1"}, invariants: "=InvExclusion"},

		{module: "Mutex", name: "a hand-over is trusted from its receipt", refutes: "InvTruth", changes: edit{{
			"LET from == Max(0, IF proc[p].slack = NoSight THEN proc[p].made ELSE proc[p].slack + m.age)", "LET from == 0"}}},
		{module: "Mutex", name: "a hand-over is trusted for a whole lease", refutes: "InvTruth", changes: edit{{"![p].trust = Claim - from", "![p].trust = Lease - from"}}},
		{module: "Mutex", name: "a grant is trusted from its receipt", refutes: "InvTruth", changes: edit{{"![p].trust = Lease - m.age", "![p].trust = Lease"}}},
		{module: "Mutex", name: "a renewal is trusted from its receipt", refutes: "InvTruth", changes: edit{{"![p].trust = Max(@, Lease - m.age)", "![p].trust = Lease"}}},
		{module: "Mutex", name: "trust does not run out", refutes: "InvTruth", changes: edit{{"!.trust = Max(0, @ - 1)", "!.trust = @"}}},
		{module: "Mutex", name: "an owner's number is used again", refutes: "InvTruth", consts: set{"MaxNet": "2"}, changes: edit{{
			`/\ New(Owner(p, n)) /\ \A i \in Numbers : i < n => ~New(Owner(p, i))`, ""}}},
		{module: "Mutex", name: "renew.lua does not look whose the lock is", refutes: "InvTruth", consts: flush, invariants: "=InvTruth", changes: edit{{
			"  /\\ IF srv.owner = m.o\n     THEN /\\ srv' = [srv EXCEPT !.left = Max(@, Lease), !.how = \"asked\"]",
			"  /\\ IF TRUE\n     THEN /\\ srv' = [srv EXCEPT !.owner = m.o, !.left = Lease, !.how = \"asked\"]"}}},
		{module: "Mutex", name: "release.lua does not look whose the lock is", refutes: "InvTruth", consts: set{"MaxNet": "2"}, changes: edit{{
			"  /\\ IF srv.owner = m.o\n     THEN \\/ \\E k", "  /\\ IF ~Free\n     THEN \\/ \\E k"}}},
		{module: "Mutex", name: "acquire.lua takes what somebody has", refutes: "InvTruth", changes: edit{{`/\ IF Free \/ srv.owner = m.o`, `/\ IF TRUE`}}},
		{module: "Mutex", name: "a hand-over is for a whole lease", refutes: "InvClaim", changes: edit{{"!.left = Claim, !.how", "!.left = Lease, !.how"}}},
		{module: "Mutex", name: "tokens are counted, whatever the time is", refutes: "InvTokens", consts: flush, changes: edit{{`Falls == ~srv.kept /\ srv.since < 1`, `Falls == ~srv.kept`}}},
		{module: "Mutex", name: "a grant that comes too late is not given back", refutes: "InvWithdrawn", consts: withdrawn, invariants: "InvWithdrawn", changes: edit{{
			"     ELSE proc' = [proc EXCEPT ![p].asking = FALSE]", "     ELSE proc' = [proc EXCEPT ![p] = Idle(@)]"}}},
		{module: "Mutex", name: "a claim is withdrawn once", refutes: "InvWithdrawn", consts: set{"Prompt": "TRUE", "MaxNet": "2"}, invariants: "InvWithdrawn", changes: edit{{
			`gone' = IF ~g.doubt \/ m.arg = 1 THEN`, `gone' = IF TRUE THEN`}}},
		{module: "Mutex", name: "a process that gives up withdraws nothing", refutes: "InvWithdrawn", consts: withdrawn, invariants: "InvWithdrawn", changes: edit{{
			"             /\\ Abandon(p, FALSE)\n             /\\ Net(net)\n\n-----", "             /\\ proc' = [proc EXCEPT ![p] = Idle(@)]\n             /\\ UNCHANGED <<srv, gone, copy, lost, fell, left>>\n             /\\ Net(net)\n\n-----"}}},
		{module: "Mutex", name: "Unlock does not wait for what is being asked", refutes: "InvWithdrawn", consts: set{"Prompt": "TRUE", "MaxNet": "2"}, invariants: "InvWithdrawn", changes: edit{{
			`Unlock(p) == /\ proc[p].st = "held" /\ ~proc[p].asking`, `Unlock(p) == /\ proc[p].st = "held"`}}},

		{module: "MutexLive", name: "a process that was refused does not ask again", refutes: "Served", temporal: "Served", changes: edit{{
			`SF_vars(Again(p)) /\ `, ``}}},
		{module: "MutexLive", name: "what nobody wants any more is released too late", refutes: "Served", temporal: "Served", changes: edit{{
			`\A g \in gone : g.until # -1`, `TRUE`}}},

		{module: "RedLock", name: "one server is enough", refutes: "InvExclusion", invariants: "=InvExclusion", changes: edit{{
			`Most == Cardinality(Servers) \div 2 + 1`, `Most == Cardinality(Servers) \div 2`}}},
		{module: "RedLock", name: "a part is trusted from its receipt", refutes: "InvTruth", changes: edit{{"ELSE IF @.age < Lease THEN", "ELSE IF TRUE THEN"}, {"[@ EXCEPT !.st = \"part\", !.trust = Lease - slot[p][s].age, !.age = 0]", "[@ EXCEPT !.st = \"part\", !.trust = Lease, !.age = 0]"}}},
		{module: "RedTokens", name: "the token is not written back", refutes: "InvTokens", consts: set{"Fenced": "TRUE"}, changes: edit{{
			`          /\ \A s \in Parts(p) : slot[p][s].token >= proc[p].token` + "\n", ""}}},
		{module: "RedTokens", name: "the smallest token is taken", refutes: "InvTokens", consts: set{"Fenced": "TRUE"}, changes: edit{{
			`slot[p][s].token <= t`, `slot[p][s].token >= t`}}},

		{module: "MultiLock", name: "what is behind the one that is waited for is kept", refutes: "InvOrder", changes: edit{{
			`kept == {k \in got : \A i \in rest : i < k => i \in got}`, `kept == got`}}},
		{module: "MultiLock", name: "the last that was refused is waited for", refutes: "InvOrder", consts: set{"Members": "{1, 2, 3}"}, changes: edit{{
			`\A i \in rest \ got : k <= i`, `\A i \in rest \ got : k >= i`}, {`kept == {k \in got : \A i \in rest : i < k => i \in got}`, `kept == got`}}},
		{module: "MultiLock", name: "an unknown outcome is taken for a no", refutes: "InvNone", changes: edit{{
			"IF k \\in Wants[p] THEN [Nothing EXCEPT !.st = \"back\"] ELSE @[k]]]\n              /\\ proc'", "@[k]]]\n              /\\ proc'"}}},
		{module: "MultiLock", name: "members are locked in any order", refutes: "Served", temporal: "Served", consts: set{"Losses": "0"}, changes: edit{
			{`kept == {k \in got : \A i \in rest : i < k => i \in got}`, `kept == got`}}},

		{module: "RWMutex", name: "the first caller calls the other side, though nobody is in line there", refutes: "InvNoTie", changes: edit{{
			"IF one.others \\/ one.mine THEN one\n", "IF one.others \\/ one.mine \\/ TRUE THEN one\n"}}},
		{module: "RWMutex", name: "a turn does not end", refutes: "Granted", temporal: "Granted", consts: set{"Procs": "{r1, w1, w2}"}, changes: edit{{
			"/\\ turn' = [turn EXCEPT !.on = FALSE]", "/\\ turn' = turn"}}},
		{module: "RWMutex", name: "readers pass writers in line", refutes: "Served", temporal: "Served", consts: set{"Procs": "{r1, r2, w1}", "Writers": "{w1}", "Deaths": "0"}, changes: edit{{
			`ELSE IF Side(p) = "read" /\ queue.write = <<>>`, `ELSE IF Side(p) = "read"`}}},
		{module: "RWMutex", name: "a call that asks to write does not look at readers", refutes: "InvExclusion", changes: edit{{
			`IF lock.mode = "write" \/ (lock.mode = "read" /\ Side(p) = "write")`, `IF lock.mode = "write"`}}},

		{module: "trust", name: "a hand-over is trusted from its receipt", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"z[k].base + a < C -> OFF(k,HANDED(a)); hold(k, C - z[k].base - a)", "1 -> OFF(k,HANDED(a)); hold(k, C)"}}},
		{module: "trust", name: "a hand-over is trusted for a whole lease", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"hold(k, C - z[k].base - a)", "hold(k, L - z[k].base - a)"}}},
		{module: "trust", name: "an answer to an earlier owner is taken for one to the present owner", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"unlist(k); z[k].st = NONE; SETTLE", "unlist(k); z[k].has = 0; z[k].st = WANTS; z[k].trust = 0; z[k].base = C; SETTLE"}}},
		{module: "trust", name: "a grant is trusted from its receipt", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"hold(k, L - a)", "hold(k, L)"}}},
		{module: "trust", name: "a renewal is trusted from its receipt", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"if :: L - a > z[k].trust -> z[k].trust = L - a", "if :: 1 -> z[k].trust = L"}}},
		{module: "trust", name: "trust does not run out", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"if :: z[i].trust > 0 -> z[i].trust-- :: else fi;", ""}}},
		{module: "trust", name: "renew.lua does not look whose the lock is", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"if :: z[k].has -> left = L; if :: a < L", "if :: 1 -> left = L; if :: a < L"}}},
		{module: "trust", name: "acquire.lua takes what somebody has", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=0", changes: edit{{
			"#define FREE(k) (left==0 || z[k].has)", "#define FREE(k) 1"}}},
		{module: "trust", name: "a process trusts what the server has forgotten", refutes: "AGREES", spin: "-DP=2 -DN=2 -DL=3 -DC=2 -DF=1", changes: edit{{
			"i==k && t >= left) -> z[i].st = NONE", "i==k && t >= left) -> skip"}}},
	}
}
