package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/scripts"
)

// A Forced is the output of force as JSON.
type Forced struct {
	Version int      `json:"version"`
	Key     string   `json:"key"`
	Taken   bool     `json:"taken"`
	From    []Holder `json:"from"`
}

// forceTries is how often force looks again at a lock that was renewed between the look and the
// command.
const forceTries = 10

func force(ctx context.Context, o *options) int {
	if !o.yes && !o.Asks {
		return o.fail(exitUsage, errors.New("nobody can be asked here: -yes takes the lock without asking"))
	}
	key := o.args[0]
	var from *Lock
	code := o.with(ctx, func(ctx context.Context) (int, error) {
		w, err := o.survey(ctx, key)
		if err != nil {
			return 0, err
		}
		from = w.Locks[key]
		switch {
		case from == nil || len(from.Holders) == 0:
			return o.fail(exitFound, fmt.Errorf("nobody holds %s", key)), nil
		case from.Kind == "permit":
			return o.fail(exitUsage, fmt.Errorf("%s is a semaphore: its permits are given back one by one", key)), nil
		}
		return exitOK, nil
	})
	if code != exitOK {
		return code
	}
	if !o.json || !o.yes {
		for _, h := range from.Holders {
			fmt.Fprintf(o.Stderr, "%s is held by %s\n", clean(key), clean(hasIt(h, time.Now())))
		}
	}
	if !o.yes && !o.agreed("Take it? [y/N] ") {
		fmt.Fprintln(o.Stderr, "Nothing was done.")
		return exitFound
	}
	return o.with(ctx, func(ctx context.Context) (int, error) {
		taken, err := o.take(ctx, from)
		if err != nil {
			return 0, err
		}
		if !taken {
			return o.fail(exitTaken, fmt.Errorf("somebody else has %s by now, or nobody; nothing was done", key)), nil
		}
		if o.json {
			o.print(Forced{JSONVersion, key, true, from.Holders})
			return exitOK, nil
		}
		fmt.Fprintf(o.Stdout, "%s was taken.\n", clean(key))
		for _, h := range from.Holders {
			switch {
			case h.Java:
				fmt.Fprintf(o.Stdout, "%s was told nothing: a Java program learns it when it unlocks.\n", clean(h.String()))
			case h.Gone:
				fmt.Fprintf(o.Stdout, "%s is gone, so it was told nothing.\n", clean(h.String()))
			default:
				fmt.Fprintf(o.Stdout, "%s was told that its lease is lost: its context has ended.\n", clean(h.String()))
			}
		}
		return exitOK, nil
	})
}

func (o *options) agreed(question string) bool {
	fmt.Fprint(o.Stderr, question)
	line, err := bufio.NewReader(o.Stdin).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return err == nil && (line == "y" || line == "yes")
}

// take takes the lock from the shown owners. It compares the owners and takes the lock in one step.
func (o *options) take(ctx context.Context, l *Lock) (bool, error) {
	var owners []string
	for _, h := range l.Holders {
		owners = append(owners, h.Owner)
	}
	slices.Sort(owners)
	for range forceTries {
		taken, again, err := o.takeOnce(ctx, l.Key, owners)
		if err != nil || !again {
			return taken, err
		}
	}
	return false, errors.New("the lock changes all the time")
}

func (o *options) takeOnce(ctx context.Context, key string, owners []string) (taken, again bool, err error) {
	err = o.rc.Dedicated(func(c rueidis.DedicatedClient) error {
		if err := c.Do(ctx, c.B().Watch().Key(key).Build()).Error(); err != nil {
			return err
		}
		fields, err := c.Do(ctx, c.B().Hkeys().Key(key).Build()).AsStrSlice()
		if err != nil {
			return err
		}
		fair, err := c.Do(ctx, c.B().Exists().Key(braced("redisson_lock_queue", key)).Build()).AsInt64()
		if err != nil {
			return err
		}
		rw := slices.Contains(fields, "mode")
		fields = slices.DeleteFunc(fields, func(f string) bool { return f == "mode" })
		slices.Sort(fields)
		if !slices.Equal(fields, owners) {
			return c.Do(ctx, c.B().Unwatch().Build()).Error()
		}
		mode := "read"
		if rw {
			text, err := c.Do(ctx, c.B().Hget().Key(key).Field("mode").Build()).ToString()
			if err != nil {
				return err
			}
			mode = text
		}
		script, keys, args := forceScript(key, rw, mode, fair > 0, o.rc.Mode() == rueidis.ClientModeCluster)
		replies := c.DoMulti(ctx,
			c.B().Multi().Build(),
			c.B().Eval().Script(script.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build(),
			c.B().Exec().Build())
		if err := replies[1].Error(); err != nil {
			return err
		}
		results, err := replies[2].ToArray()
		if rueidis.IsRedisNil(err) {
			again = true // perhaps it was renewed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		n, err := results[0].AsInt64()
		taken = n == 1
		return err
	})
	return taken, again, err
}

// forceScript returns the script that forces a lock of one kind open, as its ForceUnlock does.
func forceScript(key string, rw bool, mode string, fair, cluster bool) (script *scripts.Script, keys, args []string) {
	publish := "publish"
	if cluster {
		publish = "both"
	}
	counter, channel := braced("redisson_lock_token", key), braced("redisson_lock__channel", key)
	switch {
	case rw:
		message, prefix := "00", "{"+key+"}:"
		if mode == "write" {
			message = "01"
		}
		if strings.Contains(key, "{") {
			prefix = key + ":"
		}
		return scripts.RWForceUnlock, []string{
			key, braced("redisson_rwlock", key), braced("lockgen_reader", key), braced("lockgen_writer", key), braced("lockgen_turn", key),
		}, []string{mode, message, publish, prefix}
	case fair:
		return scripts.FairForceUnlock, []string{
			key, braced("redisson_lock_queue", key), braced("redisson_lock_timeout", key), braced("lockgen_fair", key), channel, counter,
		}, []string{fmt.Sprint(time.Now().UnixMilli()), publish}
	}
	return scripts.ForceUnlock, []string{key, braced("lockgen_waiting", key), channel, counter}, []string{"0", publish, "2000"}
}
