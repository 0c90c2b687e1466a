package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/spec"
)

// walkFiles are where the walks of a module are, below testdata.
var walkFiles = map[string]string{"Mutex": "walks.txt", "RWMutex": "rwwalks.txt", "RedLock": "redwalks.txt", "MultiLock": "multiwalks.txt"}

// walks makes TLC walk through the modules whose names only matches at random, and writes the states below testdata: the hash of the
// module without its comments, and for each walk its constants and its states, a line each. The tests of the package compare them with the
// relation in Go.
func walks(dir, jar, only string) error {
	some, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	for _, module := range slices.Sorted(maps.Keys(walkFiles)) {
		if !some.MatchString(module) {
			continue
		}
		if err := walksOf(module, dir, jar); err != nil {
			return err
		}
	}
	return nil
}

func walksOf(module, dir, jar string) error {
	text, err := os.ReadFile(filepath.Join(dir, module+".tla"))
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%x\n", sha256.Sum256([]byte(spec.Bare(module+".tla", string(text)))))
	for _, r := range walked() {
		if r.module != module {
			continue
		}
		tmp, err := os.MkdirTemp("", "lockgen-walks-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		config := regexp.MustCompile(`(?m)^(SYMMETRY|INVARIANTS).*\n`).ReplaceAllString(r.config(), "")
		if err := os.WriteFile(filepath.Join(tmp, "run.cfg"), []byte(config), 0o644); err != nil {
			return err
		}
		changed := string(text)
		for _, change := range r.changes {
			if n := strings.Count(changed, change[0]); n != 1 {
				return fmt.Errorf("the text %q is there %d times", change[0], n)
			}
			changed = strings.Replace(changed, change[0], change[1], 1)
		}
		if err := os.WriteFile(filepath.Join(tmp, module+".tla"), []byte(changed), 0o644); err != nil {
			return err
		}
		cmd := exec.Command("java", "-XX:+UseSerialGC", "-Djava.io.tmpdir="+tmp, "-cp", jar, "tlc2.TLC",
			"-simulate", "file=walk,num=3", "-depth", "80", "-workers", "1", "-seed", "1", "-deadlock", "-config", "run.cfg", module)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("TLC: %w\n%s", err, tail(out))
		}
		files, err := filepath.Glob(filepath.Join(tmp, "walk_*"))
		if err != nil {
			return err
		}
		consts := maps.Clone(defaults[module].consts)
		maps.Copy(consts, r.consts)
		said, err := json.Marshal(consts)
		if err != nil {
			return err
		}
		slices.Sort(files)
		for _, file := range files {
			walk, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s\n", said)
			for _, state := range regexp.MustCompile(`STATE_\d+ ==`).Split(string(walk), -1)[1:] {
				state, _, _ = strings.Cut(state, "====")
				fmt.Fprintf(&b, "%s\n", strings.Join(strings.Fields(state), " "))
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "testdata", walkFiles[module]), []byte(b.String()), 0o644)
}

// patient has processes end no lease that they trust, so that walks come to late parts and renewals. These are walks of the module, too.
var patient = edit{{`End(p) == /\ proc[p].st # "idle"`, `End(p) == /\ proc[p].st # "idle" /\ ~Trusts(p)`}}

// waiting has processes of a MultiLock end no call that waits, so that walks come to hand-overs.
var waiting = edit{{`End(p) == /\ proc[p].st \in {"takes", "waits", "holds"}`, `End(p) == /\ proc[p].st = "holds"`}}

// walked are the bounds of the walks.
func walked() []run {
	return []run{
		{module: "Mutex", consts: set{"MaxNet": "3", "Numbers": "{1, 2}", "Faults": "2", "Kinds": `{"lose"}`, "Contended": "TRUE", "Lease": "3", "Claim": "2"}},
		{module: "Mutex", consts: set{"MaxNet": "2", "Numbers": "{1, 2}", "Lossy": "TRUE", "Contended": "TRUE", "Java": "TRUE", "Faults": "3", "Kinds": `{"failover", "crash", "repeat"}`}},
		{module: "Mutex", consts: set{"MaxNet": "2", "Procs": "{p1, p2, p3}", "Faults": "3", "Kinds": `{"flush", "lose", "ahead", "back"}`, "Prompt": "TRUE"}},

		{module: "RWMutex"},
		{module: "RWMutex", consts: set{"Known": "TRUE", "Java": "TRUE", "Deaths": "2"}},
		{module: "RWMutex", consts: set{"Procs": "{r1, r2, r3, w1, w2, w3}", "Writers": "{w1, w2, w3}", "Deaths": "0"}},
		{module: "RWMutex", consts: set{"Procs": "{r1, r2, r3, w1}", "Writers": "{w1}", "Known": "TRUE"}},

		{module: "RedLock", consts: set{"Lease": "2", "Fenced": "TRUE", "Renewing": "TRUE", "Again": "TRUE", "Restarts": "1", "MaxToken": "9"}},
		{module: "RedLock", consts: set{"Procs": "{p1}", "Lease": "9", "Fenced": "TRUE", "Renewing": "TRUE", "Again": "TRUE", "MaxToken": "20"}, changes: patient},
		{module: "RedLock", consts: set{"Procs": "{p1}", "Lease": "9", "Renewing": "TRUE", "Again": "TRUE", "Restarts": "3", "Away": "TRUE"}, changes: patient},
		{module: "RedLock", consts: set{"Procs": "{p1}", "Lease": "5", "Renewing": "TRUE", "Again": "TRUE", "Restarts": "9"}, changes: patient},

		{module: "MultiLock", consts: set{"Lease": "2", "Losses": "3"}},
		{module: "MultiLock", consts: set{"Procs": "{p1, p2, p3}", "Members": "{1, 2, 3}", "Some": "{p3}", "Lease": "2", "Losses": "0"}},
		{module: "MultiLock", consts: set{"Lease": "3", "Losses": "9"}, changes: waiting},
	}
}
