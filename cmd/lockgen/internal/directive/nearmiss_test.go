package directive_test

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

// nearMisses are comments that somebody must have meant as a directive, with the right spelling that the message shows.
var nearMisses = map[string]string{
	// the name
	"//lock-gen:lock key=a":     "write //lockgen:lock",
	"//lock_gen:lock key=a":     "write //lockgen:lock",
	"//lock.gen:lock key=a":     "write //lockgen:lock",
	"//lock gen:lock key=a":     "write //lockgen:lock",
	"// Lock-Gen:lock key=a":    "write //lockgen:lock",
	"//lock-gen:nolock":         "write //lockgen:nolock",
	"// lock-gen lock key=a":    "write //lockgen:lock",
	"//Lockgen:lock key=a":      "write //lockgen:lock",
	"//LOCKGEN:lock key=a":      "write //lockgen:lock",
	"//lokgen:lock key=a":       "write //lockgen:lock",
	"//lockegn:lock key=a":      "write //lockgen:lock",
	"//lockgenn:lock key=a":     "write //lockgen:lock",
	"//ockgen:nolock":           "write //lockgen:nolock",
	"//lokgen:lok key=a":        "write //lockgen:lock",
	"//lockgen":                 "write //lockgen: and a verb",
	"//lockgen  ":               "write //lockgen: and a verb",
	"//lockgen key=a":           "write //lockgen:lock key=a",
	"// lockgen: key=a wait=3s": "write //lockgen:lock key=a wait=3s",
	"//go:lockgen:lock key=a":   "write //lockgen:lock",
	"//lockgenlock key=a":       "write //lockgen:lock",
	"//lockgennolock":           "write //lockgen:nolock",

	// invisible characters
	"//lockgen:\u00a0lock key=a":      "a no-break space (U+00A0) can't be in a directive; write //lockgen:lock key=a",
	"//lockgen:lock\u00a0key=a":       "a no-break space (U+00A0) can't be in a directive; write //lockgen:lock key=a",
	"//lockgen:lock key=a\u00a0fence": "a no-break space (U+00A0) can't be in a directive; write //lockgen:lock key=a fence",
	"//lockgen:lo\u200bck key=a":      "a zero-width space (U+200B) can't be in a directive; write //lockgen:lock key=a",
	"//lockgen:lock key=a\u200b:{id}": "a zero-width space (U+200B) can't be in a directive; write //lockgen:lock key=a:{id}",
	"//\u00a0lockgen:lock key=a":      "write //lockgen:lock",
	"//\u200blockgen:lock key=a":      "write //lockgen:lock",
	"//lock\u200bgen:lock key=a":      "write //lockgen:lock",
	"//lockgen\u200b:lock key=a":      "write //lockgen:lock",
	"//lockgen\u00a0:lock key=a":      "write //lockgen:lock",
	"//lock\u00adgen:lock key=a":      "write //lockgen:lock",
	"//lockgen\u00a0lock key=a":       "write //lockgen:lock",
	"//\u3000lockgen:nolock":          "write //lockgen:nolock",

	// the separator between the name and the verb
	"//lockgen :lock key=a":  "write //lockgen:lock",
	"//lockgen : lock key=a": "write //lockgen:lock",
	"//lockgen.lock key=a":   "write //lockgen:lock",
	"//lockgen.lock":         "write //lockgen:lock",
	"// lockgen.nolock":      "write //lockgen:nolock",
	"//lockgen-lock key=a":   "write //lockgen:lock",
	"//lockgen_lock key=a":   "write //lockgen:lock",
	"//lockgen/lock key=a":   "write //lockgen:lock",
	"//lockgen;lock key=a":   "write //lockgen:lock",
	"//lockgen=lock key=a":   "write //lockgen:lock",
	"//lockgen,lock key=a":   "write //lockgen:lock",
	"//lockgen：lock key=a":   "write //lockgen:lock",
	"//lockgen；lock key=a":   "write //lockgen:lock",
	"//lockgen lock key=a":   "write //lockgen:lock",
	"//lockgen nolock":       "write //lockgen:nolock",
	"// lockgen lock key=a":  "write //lockgen:lock",
	"// lockgen lock fence":  "write //lockgen:lock",

	// the text before the name
	"// lockgen:lock key=a":          "write //lockgen:lock",
	"// lockgen:service":             "write //lockgen:service",
	"//\tlockgen:nolock":             "write //lockgen:nolock",
	"// +lockgen:lock key=a":         "write //lockgen:lock",
	"// @lockgen:lock key=a":         "write //lockgen:lock",
	"//#lockgen:lock key=a":          "write //lockgen:lock",
	"///lockgen:lock key=a":          "write //lockgen:lock",
	"// A pays. //lockgen:nolock":    "write it in a line of its own",
	"// A. //lockgen:lock key=a":     "write it in a line of its own",
	"// A. // lockgen:lock key=a":    "write it in a line of its own",
	"// A //lockgen:lock key=a //x":  "write it in a line of its own",
	"/* lockgen:lock key=a fence */": "write //lockgen:lock in a line of its own",
	"/* lock-gen:lock key = a */":    "write //lockgen:lock key=a in a line of its own",

	// the arguments of what is a directive
	"//lockgen:lock key = b:{id}":         "write //lockgen:lock key=b:{id}",
	"//lockgen:lock key: b:{id} wait =3s": "write //lockgen:lock key=b:{id} wait=3s",
	"//lockgen:lock fence key=a wait= 3s": "write //lockgen:lock fence key=a wait=3s",

	// the verb
	"// lockgen:lok key=a":            "write //lockgen:lock",
	"// lockgen:Service wait=3s":      "write //lockgen:service",
	"// lockgen:default wait=1s":      "write //lockgen:defaults",
	"// lockgen:mutex key=order:{id}": "write //lockgen:lock",
	"// lockgen:lock=order:{id}":      "write //lockgen:lock key=order:{id}",
	"// lockgen:lock(key=a)":          "write //lockgen:lock key=a",

	// the text behind the verb
	"// lockgen:lock key=b:{id} fence":       "write //lockgen:lock",
	"// lockgen:lock fence key=b:{id}":       "write //lockgen:lock",
	"// lockgen:lock key = b:{id}":           "write //lockgen:lock key=b:{id}",
	"// lockgen:lock key =b:{id} wait= 3s":   "write //lockgen:lock key=b:{id} wait=3s",
	"// lockgen:lock wait = 3s key=a":        "write //lockgen:lock wait=3s key=a",
	"// lockgen:lock key: x":                 "write //lockgen:lock key=x",
	"// lockgen:lock key:x":                  "write //lockgen:lock key=x",
	"// lockgen:lock, key=a, wait=3s":        "write //lockgen:lock key=a wait=3s",
	"// lockgen:lock kye=a":                  "write //lockgen:lock",
	"// lockgen:lock \"key=a b\"":            "write //lockgen:lock",
	"// lockgen:lock key=a while it pays":    "write //lockgen:lock key=a",
	"// lockgen:lock key=a // while it pays": "write //lockgen:lock key=a",
	"// lockgen:lock the order key=a":        "write //lockgen:lock key=a",
	"// lockgen:nolock // it only reads":     "write //lockgen:nolock",
	"// lockgen:nolock - it only reads":      "write //lockgen:nolock",
	"// lockgen:nolock because it reads":     "write //lockgen:nolock",
}

// prose speaks about lockgen, or about something else, and is no mistake.
var prose = []string{
	"// lockgen",
	"// lockgen writes the wrapper.",
	"// lockgen locks this method.",
	"// lockgen lock",
	"// lockgen lock files are not checked in.",
	"// lockgen service wrappers live beside this file.",
	"// lockgen's wrapper calls it.",
	"// lockgen, the generator, writes the wrapper.",
	"// lockgen. It writes the wrapper.",
	"// lockgen: see the guide.",
	"// lockgen: locks are good",
	"// lockgen: lock everything down, they said, with key=a",
	"// lockgen: defaults to 3s",
	"// lockgen: a generator of locks",
	"// lockgen:lock is a directive, lockgen: locks are nice.",
	"// lockgen:lock and lockgen:nolock are directives.",
	"// lockgen:lock, lockgen:nolock and lockgen:service are directives.",
	"// lockgen:lock takes key=order:{id}, as the reference says.",
	"// lockgen:nolock says that a method needs none.",
	"// lockgen:service stands above an interface.",
	"// lockgen:locks are typed.",
	"// lockgen/lockgen is the repository.",
	"// lockgen/lock",
	"// lockgen-lock is a folder.",
	"// lockgen.lock files are ignored.",
	"// lockgen_process:<uuid> is a channel.",
	"// lockgen ./... generates all.",
	"// lockgen -check ./... is for CI.",
	"// lockgen list prints all locks.",
	"//lockgen locks are nice",
	"//lockgenerator is another tool.",
	"// Lockgen generates locks.",
	"// LockGen service, version 2",
	"// locksmith:lock key=a",
	"// locker: lock it",
	"// lock-gen is how some spell it.",
	"// lock gen: a history of lock generators",
	"// locking: lock order matters here",
	"// blocking: locks are held here",
	"// lokgen: lok",
	"// A is locked by lockgen.",
	"// A is locked as lockgen:lock key=order:{id} says.",
	"// A is not locked as by \"//lockgen:lock key=a\".",
	"// A uses `//lockgen:lock key=a`, see the guide",
	"// see //lockgen:lock key=b and the like.",
	"// see http://example.com/lockgen:lock for more",
	"//go:generate lockgen ./...",
	"//go:generate go run github.com/lockgen/lockgen/cmd/lockgen",
	"//nolint:lockgen",
	"// //lockgen:lock key=a",
	"// TODO: lockgen:lock key=a",
	"// TODO(ann): lock key=a by lockgen",
	"// lock key=a",
	"// key=a wait=3s",
	"/* lockgen:lock is for methods. */",
	"/* The lockgen: lock it. */",
	"// \u00a0",
	"// Ünïcödé lockgen:lock",
}

// collect reads a comment above, beside and below a method.
func collect(t *testing.T, comment string) []*diag.List {
	t.Helper()
	var lists []*diag.List
	for _, src := range []string{
		"package a\n\n//lockgen:service\ntype S interface {\n\t" + comment + "\n\tA()\n}\n",
		"package a\n\n//lockgen:service\ntype S interface {\n\tA() " + comment + "\n}\n",
		"package a\n\n//lockgen:service\ntype S interface {\n\tA()\n\n\t" + comment + "\n}\n",
		"package a\n\n" + comment + "\ntype S interface {\n\tA()\n}\n",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "a.go", src, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err, src)
		list := diag.New(fset)
		directive.Collect(list, file)
		lists = append(lists, list)
	}
	return lists
}

func TestNearMisses(t *testing.T) {
	t.Parallel()
	require.Greater(t, len(nearMisses), 60)
	for comment, want := range nearMisses {
		require.True(t, directive.Mentioned([]byte("package a\n"+comment)), "%+q", comment)
		for i, list := range collect(t, comment) {
			if i > 1 && strings.Contains(want, "a line of its own") && strings.HasPrefix(comment, "//") {
				continue // behind text that belongs to nothing it is talk
			}
			all := list.Sorted()
			if len(all) == 0 {
				t.Errorf("%+q, %d: passed over", comment, i)
				continue
			}
			shown := strings.HasSuffix(all[0].Message, want)
			if strings.HasSuffix(want, "a verb") {
				shown = strings.Contains(all[0].Message, want)
			}
			if !shown {
				t.Errorf("%+q, %d: %s", comment, i, all[0].Message)
			}
		}
	}
}

func TestNearMisses_Prose(t *testing.T) {
	t.Parallel()
	require.Greater(t, len(prose), 40)
	for _, comment := range prose {
		for i, list := range collect(t, comment) {
			for _, d := range list.Sorted() {
				t.Errorf("%+q, %d: %s", comment, i, d.Message)
			}
		}
	}
}
