package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Detail is the output of show as JSON.
type Detail struct {
	Version int      `json:"version"`
	Lock    *Lock    `json:"lock,omitempty"`
	Redis   []Entry  `json:"redis"`
	Silent  []string `json:"silent,omitempty"`
	Mute    []string `json:"mute,omitempty"`
	Omitted int      `json:"omitted,omitempty"`
}

// An Entry is one key in Redis.
type Entry struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	TTLMS  int64    `json:"ttl_ms"` // -1 if it does not expire
	Length int64    `json:"length,omitempty"`
	Values []string `json:"values,omitempty"` // 64 at most
}

// MarshalJSON writes the texts as [survey.JSONKey] does: an id of a permit is no UTF-8 either.
func (e Entry) MarshalJSON() ([]byte, error) {
	type entry Entry // without this method
	text := entry(e)
	text.Name, text.Values = survey.JSONKey(e.Name), nil
	for _, v := range e.Values {
		text.Values = append(text.Values, survey.JSONKey(v))
	}
	return json.Marshal(text)
}

// mostText is how many bytes a string has at most that show reads.
const mostText = 1024

// braced returns the name of a companion of a key, as the locks build it.
func braced(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

// besides are the names of the companions that a key can have.
func besides(key string) []string {
	names := []string{key}
	for _, prefix := range []string{
		"lockgen_waiting", "redisson_lock_token", "redisson_lock_queue", "redisson_lock_timeout", "lockgen_fair",
		"lockgen_reader", "lockgen_writer", "lockgen_turn", "lockgen_deleted",
		"lockgen_leader", "lockgen_every",
	} {
		names = append(names, braced(prefix, key))
	}
	return append(names, survey.PermitLeases(key))
}

func show(ctx context.Context, o *options) int {
	return o.with(ctx, func(ctx context.Context) (int, error) {
		key := survey.KeyOf(o.args[0])
		w, err := o.survey(ctx, key)
		if err != nil {
			return 0, err
		}
		d := Detail{Version: JSONVersion, Lock: w.Locks[key], Redis: []Entry{}, Silent: w.Silent, Mute: w.Mute, Omitted: w.Omitted}
		for _, name := range besides(key) {
			e, ok, err := o.entry(ctx, name)
			if err != nil {
				return 0, err
			}
			if ok {
				d.Redis = append(d.Redis, e)
			}
		}
		if d.Lock != nil {
			d.order()
		}
		code := exitOK
		if d.Lock == nil {
			code = exitFound
		}
		if o.json {
			o.print(d)
			return code, nil
		}
		if d.Lock == nil && len(d.Redis) > 0 && d.Redis[0].Name == key {
			return o.fail(exitFound, fmt.Errorf("%s is a %s, and no lock that somebody has", quoted(key), d.Redis[0].Type)), nil
		}
		if d.Lock == nil {
			return o.fail(exitFound, fmt.Errorf("nobody holds %s or waits for it", quoted(key))), nil
		}
		o.detail(d)
		return exitOK, nil
	})
}

// order sorts the waiters by the place of their processes in the wait queue.
func (d *Detail) order() {
	var line []string
	for _, e := range d.Redis {
		if e.Type == "list" {
			line = append(line, e.Values...)
		}
	}
	place := func(w Waiter) int {
		i := slices.IndexFunc(line, func(v string) bool { return strings.Contains(v, w.Process) })
		if i < 0 {
			return len(line)
		}
		return i
	}
	slices.SortStableFunc(d.Lock.Waiters, func(a, b Waiter) int { return place(a) - place(b) })
}

// entry reads the key with this name, if it exists.
func (o *options) entry(ctx context.Context, name string) (e Entry, ok bool, err error) {
	b := o.rc.B
	kind, err := o.rc.Do(ctx, b().Type().Key(name).Build()).ToString()
	if err != nil || kind == "none" {
		return e, false, err
	}
	left, err := o.rc.Do(ctx, b().Pttl().Key(name).Build()).AsInt64()
	if err != nil || left == -2 { // it has gone meanwhile
		return e, false, err
	}
	e = Entry{Name: name, Type: kind, TTLMS: left}
	read := map[string][2]rueidis.Completed{
		"list": {b().Llen().Key(name).Build(), b().Lrange().Key(name).Start(0).Stop(survey.MostFields - 1).Build()},
		"zset": {b().Zcard().Key(name).Build(), b().Zrange().Key(name).Min("0").Max("63").Build()},
	}
	switch commands, has := read[kind]; {
	case kind == "string":
		n, err := o.rc.Do(ctx, b().Strlen().Key(name).Build()).AsInt64()
		if err != nil || n > mostText {
			e.Length = n
			return e, true, err
		}
		text, err := o.rc.Do(ctx, b().Get().Key(name).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			return e, false, nil
		}
		e.Values = []string{text}
		return e, true, err
	case kind == "hash":
		if e.Length, err = o.rc.Do(ctx, b().Hlen().Key(name).Build()).AsInt64(); err != nil || e.Length > survey.MostFields {
			return e, true, err
		}
		fields, err := o.rc.Do(ctx, b().Hgetall().Key(name).Build()).AsStrMap()
		for _, f := range sortedKeys(fields) {
			e.Values = append(e.Values, f+" = "+fields[f])
		}
		return e, true, err
	case has:
		if e.Length, err = o.rc.Do(ctx, commands[0]).AsInt64(); err != nil {
			return e, false, err
		}
		e.Values, err = o.rc.Do(ctx, commands[1]).AsStrSlice()
		return e, true, err
	}
	return e, true, nil
}

// holds says what n holds of a lock of this kind are.
func holds(kind string, n int) string {
	switch lockrt.Kind(kind) {
	case lockrt.KindPermit:
		return count(n, "permit", "permits")
	case lockrt.KindRead:
		return count(n, "reader", "readers")
	}
	return "entered " + count(n, "time", "times")
}

func (o *options) detail(d Detail) {
	now := time.Now()
	fmt.Fprintf(o.Stdout, "%s (%s)\n", quoted(d.Lock.Key), clean(d.Lock.Kind))
	writeMany(o.Stdout, d.Lock.Many, "  ")
	writeOthers(o.Stdout, d.Lock.Others, "  ")
	if len(d.Lock.Holders) == 0 && d.Lock.Many == 0 && d.Lock.Others.Permits == 0 {
		fmt.Fprintln(o.Stdout, "  nobody has it")
	}
	for _, h := range d.Lock.Holders {
		fmt.Fprintf(o.Stdout, "  held by %s\n", clean(hasIt(h, now)))
		fmt.Fprintf(o.Stdout, "    owner %s, %s, lease %s", clean(h.Owner), holds(d.Lock.Kind, h.Holds), ends(h.LeftMS))
		if h.Token != 0 {
			fmt.Fprintf(o.Stdout, ", token %d", h.Token)
		}
		fmt.Fprintln(o.Stdout)
	}
	for i, w := range d.Lock.Waiters {
		if i == 0 {
			fmt.Fprintln(o.Stdout, "  waiting:")
		}
		fmt.Fprintf(o.Stdout, "    %d. %s", i+1, clean(waits(w, now)))
		if w.Deadline != nil {
			fmt.Fprintf(o.Stdout, ", gives up in %s", short(w.Deadline.Sub(now)))
		}
		for _, u := range w.Under {
			fmt.Fprintf(o.Stdout, ", under %s", quoted(u.Key))
		}
		fmt.Fprintln(o.Stdout)
	}
	for i, e := range d.Redis {
		if i == 0 {
			fmt.Fprintln(o.Stdout, "  in Redis:")
		}
		fmt.Fprintf(o.Stdout, "    %s (%s, %s)\n", quoted(e.Name), clean(e.Type), ends(e.TTLMS))
		for _, v := range e.Values {
			fmt.Fprintf(o.Stdout, "      %s\n", clean(fit(v, 90)))
		}
		if n := e.Length - int64(len(e.Values)); n > 0 {
			fmt.Fprintf(o.Stdout, "      and %d more\n", n)
		}
	}
	o.tellSilent(d.Silent, "")
	o.tellMute(d.Mute)
	o.tellOmitted(d.Omitted, " of this key")
}
