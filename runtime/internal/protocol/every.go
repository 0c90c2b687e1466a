package protocol

import (
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// schedule returns the key of what is known of a schedule.
func schedule(key string) string { return prefixed("lockgen_every", key) }

// A Schedule is what one client says of one schedule.
type Schedule struct {
	Key      string // of the mutex that a client holds while it runs
	Interval time.Duration
	Keep     time.Duration // how long the schedule is known
}

// Known is the part of a schedule that a process remembers, in case the server loses it.
type Known struct {
	Begun time.Time // the start of the last interval that was begun; zero if none is known
	Done  time.Time // the start of the last interval that was done; zero if none is known
}

// Look returns the command that asks whether the present interval is to be begun. [ReadEvery] reads its reply.
func (s Schedule) Look(known Known) Command { return s.Begin("", 0, known) }

// Begin returns the command by which the owner of the mutex begins the present interval. [ReadEvery] reads its reply.
func (s Schedule) Begin(owner string, token int64, known Known) Command {
	at := func(start time.Time) string {
		if start.IsZero() {
			return "-1"
		}
		return clock(start)
	}
	return Command{scripts.Every, []string{s.Key, schedule(s.Key)},
		[]string{millis(s.Interval), owner, strconv.FormatInt(token, 10), at(known.Begun), millis(s.Keep), at(known.Done)}}
}

// Done returns the command that notes that the interval with that start was done. It replies 1 if it is noted.
func (s Schedule) Done(start time.Time) Command {
	return Command{scripts.EveryDone, []string{schedule(s.Key)}, []string{clock(start), millis(s.Keep)}}
}

// A Moment is what the server says of a schedule.
type Moment struct {
	Begins bool          // the owner begins the present interval
	Due    bool          // the present interval is to be begun
	Lost   bool          // the owner has not the mutex
	Start  time.Time     // of the present interval
	Left   time.Duration // to the next one that can begin
	Known
}

// ReadEvery reads the reply to [Schedule.Look] and [Schedule.Begin].
func ReadEvery(reply []int64) (m Moment, err error) {
	if err := short(scripts.Every, reply, 5); err != nil {
		return m, err
	}
	at := func(ms int64) time.Time {
		if ms < 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	return Moment{
		Begins: reply[0] == 2, Due: reply[0] == 1, Lost: reply[0] == -1,
		Start: time.UnixMilli(reply[1]), Left: Milliseconds(reply[2]), Known: Known{at(reply[3]), at(reply[4])},
	}, nil
}
