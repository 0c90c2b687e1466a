package cli

import (
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/memo"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/write"
)

// Two things are remembered. Of a call: that all was up to date, with nothing to be said; then the next run with the same input looks no further. Of
// each package: that its outputs were up to date; then a run that has something else to do checks the package, since what it locks is compared with
// what others lock, and does not write its outputs in memory, which is most of the work.

// A made output is one with what is remembered about its package.
type made struct {
	check.Output
	of *remembered
}

// remembered is what is known about the outputs of a package.
type remembered struct {
	memo  memo.Memo
	print string // of this program, the package and what it imports declares; empty if that is not known
	fresh bool   // they are up to date, as another run has found
	stale bool   // the fingerprint is not of the outputs as they are to be
}

// recall looks up what is remembered about a package.
func (r *runner) recall(pkg *load.Package) *remembered {
	of := &remembered{}
	if r.self != "" && pkg.Print != "" {
		of.memo = memo.ForPackage(pkg.Files[0].Name, r.c.Tags)
		of.print = r.self + " " + pkg.Print
		_, of.fresh = of.memo.Find(of.print)
	}
	return of
}

// remember keeps what this run has found up to date: each package whose outputs it has written in memory, and the whole call if it has nothing to say.
func (r *runner) remember(silent bool) {
	if r.print == "" {
		return
	}
	var found []*remembered
	for _, out := range r.outputs {
		if of := out.of; !of.fresh && !of.stale && of.print != "" && !slices.Contains(found, of) {
			found = append(found, of)
		}
	}
	// Another run may have written an output since the fingerprint was taken, and removed it again.
	silent = silent && !slices.ContainsFunc(r.files, func(f write.File) bool { return !r.loaded.Saw(f.Name, f.Content) })
	if !silent && len(found) == 0 || !r.loaded.Unchanged() {
		return
	}
	for _, of := range found {
		of.memo.Keep(of.print, "")
	}
	if silent {
		r.memo.Keep(r.print, strings.Join(r.summary, "\n"))
	}
}
