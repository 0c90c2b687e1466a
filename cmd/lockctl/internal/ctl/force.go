package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Forced is the output of force as JSON.
type Forced struct {
	Version int      `json:"version"`
	Key     string   `json:"key"`
	Taken   bool     `json:"taken"`
	From    []Holder `json:"from"`
	survey.Others
}

func force(ctx context.Context, o *options) int {
	if !o.yes && !o.Asks {
		return o.fail(exitUsage, errors.New("nobody can be asked here: -yes takes the lock without asking"))
	}
	key := survey.KeyOf(o.args[0])
	f := Forced{Version: JSONVersion, Key: survey.JSONKey(key), From: []Holder{}}
	var from *Lock
	var silent, owners []string // the processes that did not answer, and what the holders have in Redis
	var whole bool              // owners are all of it
	code := o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, key)
		if err != nil {
			return 0, err
		}
		if from, silent = w.Locks[key], w.Silent; from != nil {
			f.Others = from.Others
		}
		switch {
		case from != nil && from.Many > 0:
			return o.leaves(f, exitFound, fmt.Errorf("%s has %d owners, too many to take it from them", quoted(key), from.Many)), nil
		case from != nil && len(from.Holders) == 0 && f.Others.Permits > 0:
			return o.leaves(f, exitFound, fmt.Errorf("%s: %s: a permit can be taken only from a process that answers", quoted(key), belong(f.Others))), nil
		case from == nil || len(from.Holders) == 0:
			return o.leaves(f, exitFound, fmt.Errorf("nobody holds %s", quoted(key))), nil
		}
		owners, whole, err = survey.Owners(ctx, o.rc, from, from.Holders)
		return exitOK, err
	})
	if code != exitOK {
		return code
	}
	if !o.json || !o.yes {
		for _, h := range from.Holders {
			fmt.Fprintf(o.Stderr, "%s is held by %s\n", quoted(key), clean(hasIt(h, time.Now())))
		}
	}
	if !o.yes && !o.agreed("Take it? [y/N] ") {
		if o.json {
			o.print(f)
		}
		fmt.Fprintln(o.Stderr, "Nothing was done.")
		return exitFound
	}
	return o.with(ctx, func(ctx context.Context) (int, error) {
		taken, err := o.c.ForceUnlock(ctx, key, owners...)
		if err != nil {
			return 0, err
		}
		if !taken {
			return o.leaves(f, exitTaken, fmt.Errorf("somebody else has %s by now, or nobody; nothing was done", quoted(key))), nil
		}
		if o.json {
			f.Taken, f.From = true, from.Holders
			o.print(f)
			return exitOK, nil
		}
		fmt.Fprintf(o.Stdout, "%s was taken.\n", quoted(key))
		if !whole {
			fmt.Fprintln(o.Stdout, "Of permits that were acquired together only the first one: the others end with their lease time.")
		}
		writeOthers(o.Stdout, f.Others, "Not taken: ")
		for _, h := range from.Holders {
			switch {
			case h.Java:
				fmt.Fprintf(o.Stdout, "%s was told nothing: a Java program learns it when it unlocks.\n", clean(h.String()))
			case from.Kind == string(lockrt.KindPermit):
				fmt.Fprintf(o.Stdout, "%s learns it when it renews the permit or releases it.\n", clean(h.String()))
			case h.Gone:
				fmt.Fprintf(o.Stdout, "%s is gone, so it was told nothing.\n", clean(h.String()))
			case slices.Contains(silent, h.Process):
				fmt.Fprintf(o.Stdout, "%s does not answer: it learns it when it runs again.\n", clean(h.String()))
			default:
				fmt.Fprintf(o.Stdout, "%s was told that its lease is lost: its context has ended.\n", clean(h.String()))
			}
		}
		return exitOK, nil
	})
}

// leaves prints that a lock was not taken, and why, and returns the exit code.
func (o *options) leaves(f Forced, code int, err error) int {
	if o.json {
		o.print(f)
	}
	return o.fail(code, err)
}

func (o *options) agreed(question string) bool {
	fmt.Fprint(o.Stderr, question)
	line, err := bufio.NewReader(o.Stdin).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return err == nil && (line == "y" || line == "yes")
}
